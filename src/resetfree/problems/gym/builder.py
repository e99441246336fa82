"""`from_gym`: a Gymnasium environment as a problem in which `env.reset` is called only when a reset is due.

`from_gym` checks all arguments before the first step. Each function below decides one part of the problem: how
observations become states (`_usual_observer`, `_with_history`), `_limits`, features (`_features_for`,
`_start_features`), `_goals`, rewards (`_own_reward`), and the exact model of an environment whose transitions are a
table (`_exact_model`). The problem that it makes is `adapter.GymProblem`.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from gymnasium import spaces

from resetfree.core import Floats, InvalidInput, ResetFreeError, check, expect, imported, one_line, whole, words
from resetfree.problems.action_spaces import Box, Choices
from resetfree.problems.blueprint import LARGEST
from resetfree.problems.features import FeatureMap, make_features
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.finite.transitions import Horizon
from resetfree.problems.gym.adapter import GymProblem
from resetfree.problems.gym.events import Condition, Decide, PerGoal, Rewards, event, reward_function
from resetfree.problems.gym.flattening import learner_actions, names_of
from resetfree.problems.gym.goals import GO_ON, RESTART, Goals, Success
from resetfree.problems.gym.history import MOST, Recent
from resetfree.problems.gym.known import (
    GRIDS,
    PER_GOAL,
    Meaning,
    NoTable,
    Terms,
    decoder_for,
    known_name,
    meaning_of,
    only_falls,
    read_table,
)
from resetfree.problems.gym.making import Env, changed_by, check_environment, lift_time_limits, make_environment
from resetfree.problems.gym.observations import CountedObservations, Numbered, Observer, combinations, observer_for
from resetfree.problems.limits import ActionLimits, Limits
from resetfree.problems.operators import Automatic, Operator

SEEN = 10_000  # distinct observations that a known grid may show
AUTO = "auto"
UNBOUNDED = 1e30  # bounds beyond this count as none
XI_SEED = 0  # features of starts are part of the problem, not of a run


def from_gym(
    env: Any,
    *,
    horizon: int = 100,
    observe: Any = None,
    features: Any = None,
    xi: Any = None,
    reset_when: Any = None,
    goal_when: Any = None,
    after_goal: str | None = None,
    new_task: Any = None,
    reward: Any = None,
    reward_range: tuple[float, float] | None = None,
    actions: Any = None,
    states: int | str | None = None,
    bounds: Any = None,
    table: bool = True,
    operator: Operator | None = None,
    name: str | None = None,
    decode: Any = None,
    history: int | str = "auto",
    limits: Any = None,
    margin: Any = None,
    rate_limits: Any = None,
    action_limits: Any = None,
    action_rates: Any = None,
    **make_options: Any,
) -> GymProblem:
    """A Gymnasium environment as a problem that is reset only at its start and after a reset event.

    env: a gymnasium.Env, an id ("gym:CartPole-v1", "gym:package:id"), or module:factory. A `TimeLimit` around it is
      disabled (in the object itself); `truncated` is ignored. The environment must allow steps after `terminated` if
      `reset_when` is false there.
    horizon: H, steps per episode of the learner. The environment is not reset between episodes.
    observe: a function of the raw observation, or module:function, that returns a vector, which is then the state.
      Default: all numbers of the observation, see `flattening`; images need one.
    features: features of vectors for linear players: the name of a feature map, a `FeatureMap`, or a function as
      `observe` whose vectors are the features themselves. Default: random Fourier features.
    xi: features of starts for the dual player: the name of a feature map, a `FeatureMap`, a function of the state; rows
      [n, d] if states are numbers. Default: the constant 1.
    reset_when: function of (observation, reward, terminated, info), or text (see `events`). Default: `terminated`,
      unless it is a goal.
    goal_when: what counts as a goal and never as a reset, in the same form; "never" for none. Default: for ids that are
      known (see `known`) what they mean, unless `reset_when` is given; else a termination with a true
      info["is_success"], if neither is given.
    after_goal: "go on", "new task" or "restart for free", see `goals`. Default: that of a known id, else "go on".
    new_task: sets a new task and returns its observation: the name of a method of the environment, a function of the
      environment, or options of its reset.
    reward: your own reward, a function of the same four arguments, or "goal": 1 for each goal and 0 otherwise.
    reward_range: (low, high) of the rewards, which are scaled to [0, 1]; the original return is recorded too. Default:
      learned, from the table or from the first episode (see `events`).
    actions: a list of the actions to choose from; for continuous ones also grid points per dimension (5, or a tuple).
      Default: all actions; continuous ones as they are ("box"), for players that take a `Box`.
    states: N: use numbers as states, one for each distinct observation in the order of first appearance, at most N; or
      "vectors". Default: numbers for whole numbers of at most 20 levels each and 10,000 combinations, if actions are
      listed, and for MiniGrid; else vectors.
    bounds: (low, high) of vector states if the space has none: a scale for `xi`.
    table: whether to read the exact model of an environment that has one (`env.P`).
    operator: performs resets (see `operators`). Default: the environment itself.
    decode: named coordinates of a counted state, for rules about danger: a function of the observation, or
      module:function, that returns whole numbers from 0 or a dictionary of them (see `decoding`). Default: those of
      known ids (Taxi, FrozenLake, CliffWalking, MiniGrid), and the parts of observations that are whole numbers.
    history: n: vector states hold the last n observations and the actions between them (see `history`). "auto": one,
      until the first steps of a run show that something is hidden; then the run goes on with four.
    limits: {sensor: (low, high)}, None for no limit, by names or places of the numbers of a state, or text such as
      "temperature=:80,level=0.1:0.6"; or a function of these numbers that is true where it must not be (also as
      {"its name": f} among others): beyond is a reset, which is known to learners that search in a model before any
      happened (docs/controller.md).
    margin: distance before a limit in which reward is lost, all of it at the limit: for all sensors, or by sensor.
    rate_limits: {sensor: change}: a larger change from one step to the next is a reset as well.
    action_limits: {action: (low, high)}, by place or as action_0: continuous actions that are never left, whoever acts.
    action_rates: {action: change}, or one number for all: commands are cut to so much from those of the step before.
    make_options: options of the environment, for an id or a factory.

    Other states are numbers for discrete observations, else vectors of float64. If they are numbers, one more than
    the observations is the reset state. The environment's randomness is seeded from the run's seed.

    >>> lake = from_gym("gym:FrozenLake-v1", reset_when="terminated and observation!=15", is_slippery=False)
    >>> lake.n_states, lake.n_actions, lake.mdp
    (17, 4, FiniteMDP(17 states, 4 actions, horizon 100, 1 reset state))
    >>> from_gym("gym:Pendulum-v1").actions.size, from_gym("gym:Pendulum-v1", actions=5).n_actions
    (1, 5)
    >>> lava = from_gym("gym:MiniGrid-LavaGapS5-v0")
    >>> lava.n_states, [part.name for part in lava.factors.parts]
    (10001, [])
    """
    if name is not None:
        words(name, "name of a problem")
    made, called = _environment(env, make_options, name)
    try:
        check(horizon, Horizon, f"'horizon' of '{called}'")
        check(table, bool, f"'table' of '{called}'")
        lift_time_limits(made)
        function, given_by = _function_of_observations(observe, features, called)
        listed = learner_actions(made.action_space, actions, called)
        some = action_limits is not None or action_rates is not None
        acts = ActionLimits.read(action_limits, action_rates, listed, called) if some else None
        listed = listed if acts is None else acts.within
        if states is None and observe is None and features is None and xi is None and bounds is None:
            observer = _usual_observer(made, listed, int(horizon), called)
        else:
            observer = observer_for(made.observation_space, function, states, called, given_by)
        _set_bounds(observer, bounds, called)
        known = _limits(observer, limits, margin, called, rates=rate_limits)
        observer = _with_history(observer, history, listed, called, limited=known is not None)
        meaning = meaning_of(made) if reset_when is None and goal_when is None else None
        if meaning is not None:
            reset_when = meaning.reset_when
            if reward is None and reward_range is None:
                reward, reward_range = meaning.reward, meaning.reward_range
        asks = reset_when is None and goal_when is None and not only_falls(made)
        wanted = {"goal_when": goal_when, "after_goal": after_goal, "new_task": new_task}
        goals = _goals(made, called, meaning, implied=asks, **wanted)
        rewards = Rewards.within(_own_reward(reward, goals, called), reward_range, called)
        terms = _terms(made, called, reset_when, rewards, actions=listed, function=function)
        start_features = _start_features(xi, observer, called)
        model, terms, units, no_table = _exact_model(
            made, observer, terms, table=table, goals=goals, horizon=int(horizon), name=called, xi=start_features
        )
        problem = GymProblem(
            made,
            called,
            int(horizon),
            terms,
            observer,
            features=_features_for(observer, features, called, own=given_by == "features"),
            xi=start_features,
            operator=Automatic() if operator is None else operator,
            model=model,
            no_table=no_table,
            goals=goals,
            asks=asks,
            units=units,
            decoder=decoder_for(made, decode, observer, called),
            limits=known,
            auto_history=history == AUTO,
        )
        if acts is not None and np.isfinite(acts.rate).any():
            problem.action_limits = acts
    except BaseException:
        if isinstance(env, str):
            made.close()
        raise
    if isinstance(env, str):
        problem.remake = lambda: _environment(env, make_options, name)[0]
    return problem


def _exact_model(
    env: Env, observer: Observer, terms: Terms, *, table: bool, name: str, **known: Any
) -> tuple[FiniteMDP | None, Terms, Any, str]:
    """The model of an environment with a table, the terms with it, the units of its rewards, and why it has none."""
    try:
        if not table:
            raise NoTable("is played without its table (table=False)")
        n = _table_size(env, observer, terms)
        model, units = read_table(env.unwrapped, n, terms, name=name, **known)
    except NoTable as error:
        return None, terms, terms.rewards.units, f"There is no exact oracle for '{name}': it {error}."
    return model, dataclasses.replace(terms, table=model.transition, table_reward=model.reward), units, ""


def _usual_observer(env: Env, actions: Any, horizon: int, problem: str) -> Observer:
    """How observations become states if no argument says it: small discrete spaces and known grids are counted."""
    space = env.observation_space
    known = SEEN if known_name(env).startswith(GRIDS) else combinations(space)
    listed = known is not None and isinstance(actions, list) and not isinstance(space, spaces.Discrete)
    if known is not None and listed and known * len(actions) * horizon <= LARGEST:
        return Numbered(known, shares=known == SEEN)
    return observer_for(space, None, None, problem)


def _with_history(observer: Observer, history: Any, actions: Any, problem: str, *, limited: bool) -> Observer:
    """The observer whose state is the last `history` observations, if more than one is requested."""
    if isinstance(history, str) and history == AUTO:
        return observer
    n = whole(history, f"'history' of '{problem}'", 1, MOST)
    if n == 1:
        return observer
    must = "be 1 for states that are counted (observe=f makes vectors of observations)"
    expect(observer.n_states is None, f"'history' of '{problem}'", must, n)
    if limited:
        raise InvalidInput(f"The 'limits' of '{problem}' need states of one observation. Got 'history' too: state one.")
    return Recent(observer, n, actions if isinstance(actions, Box) else Choices(len(actions), actions))


def _limits(observer: Observer, limits: Any, margin: Any, called: str, rates: Any) -> Limits | None:
    """The stated limits of the numbers of a state, beyond which is a reset state."""
    if limits is None and rates is not None:
        limits = Limits(*(np.full(len(observer.names), end) for end in (-np.inf, np.inf, 0.0)))
    if limits is None:
        if margin is not None:
            raise InvalidInput(f"The 'margin' of '{called}' needs 'limits'. Got none instead.")
        return None
    if observer.n_states is not None:
        raise InvalidInput(
            f"The states of '{called}' are counted and take no 'limits'. Got {limits!r} instead: state reset_when."
        )
    found = limits if isinstance(limits, Limits) else Limits.read(limits, observer.names, called, margin)
    return found if rates is None else found.with_rates(rates, observer.names, called)


def _features_for(observer: Observer, features: Any, problem: str, *, own: bool) -> FeatureMap | None:
    """The feature map of observations that are not counted; `own`: the user's function of the observation."""
    if observer.n_states is None:
        map_or_name = "user" if own else "random-fourier" if features is None else features
        return _feature_map(map_or_name, f"'features' of '{problem}'", "the observation")
    if not own and features is not None:
        raise InvalidInput(f"The states of '{problem}' are counted and take no feature map. Got {features!r} instead.")
    return None


def _terms(env: Env, called: str, reset_when: Any, rewards: Rewards, actions: Any, function: Any) -> Terms:
    """What the learner's view of an environment is made of."""
    spec, own = env.unwrapped.spec, type(env.unwrapped)
    return Terms(
        environment=f"{own.__module__}.{own.__qualname__}" if spec is None else spec.id,
        made_with=() if spec is None else tuple(sorted(spec.kwargs.items())),
        wrappers=tuple(changed_by(env)),
        reset_when=event(reset_when, called, _names(env.observation_space)),
        rewards=rewards,
        actions=actions,
        function=function,
    )


def _goals(
    env: Env, problem: str, meaning: Meaning | None, goal_when: Any, after_goal: Any, new_task: Any, implied: bool
) -> Goals | None:
    """What counts as a goal: as given, as a known id means it, or (`implied`) what the environment calls a success."""
    if meaning is not None:
        goal_when = meaning.goal_when
        if after_goal is None and new_task is None:
            after_goal, new_task = meaning.after_goal, meaning.new_task
    if goal_when is None and (after_goal is not None or new_task is not None):
        raise InvalidInput(
            f"The 'after_goal' and 'new_task' of '{problem}' say what follows a goal: state 'goal_when' too. "
            f"Got after_goal={after_goal!r}, new_task={new_task!r} alone instead."
        )
    if goal_when is None:
        return Goals(Success(), RESTART, stated=False) if implied else None
    when = event(goal_when, problem, _names(env.observation_space), "goal_when")
    if isinstance(when, Condition) and not when.groups:
        return None
    return Goals.checked(when, GO_ON if after_goal is None else after_goal, new_task, env, problem)


def _own_reward(reward: Any, goals: Goals | None, problem: str) -> Decide | None:
    """The user's own reward function; "per goal" (`PER_GOAL`) needs goals that are stated."""
    if isinstance(reward, str) and reward == PER_GOAL and goals is not None and goals.stated:
        return PerGoal(goals.when)
    return reward_function(reward, problem)


def _function_of_observations(observe: Any, features: Any, problem: str) -> tuple[Any, str]:
    """The user's function of the raw observation (None: there is none), and the argument that it was given by."""
    own = callable(features) and not isinstance(features, FeatureMap)
    if observe is None:
        return (features, "features") if own else (None, "observe")
    must = f"The 'observe' of '{problem}' must be a function of the observation, or module:function."
    function = imported(observe, must) if isinstance(observe, str) and ":" in observe else observe
    if not callable(function):
        raise InvalidInput(f"{must} Got {observe!r} instead.")
    if own:
        raise InvalidInput(f"{must} Got a second one in 'features': give one of the two.")
    return function, "observe"


def _names(space: spaces.Space[Any]) -> Callable[[], list[str]]:
    """The names of the numbers of an observation, for conditions; none for one that is a number itself."""
    return list if space.shape == () else lambda: names_of(space)


def _table_size(env: Env, observer: Observer, terms: Terms) -> int:
    """The number of states in the table of an environment that is finite and unchanged; raises NoTable."""
    space, actions = env.observation_space, env.action_space
    if not (isinstance(observer, CountedObservations) and isinstance(actions, spaces.Discrete)):
        raise NoTable("is not a finite problem")
    if terms.wrappers:
        raise NoTable(f"is changed by {', '.join(terms.wrappers)}")
    assert isinstance(space, spaces.Discrete)
    if space.start or actions.start:
        raise NoTable("does not count from 0")
    return int(space.n)


def _environment(given: Any, options: Mapping[str, Any], name: str | None) -> tuple[Env, str]:
    """The environment for an argument, and its name."""
    if isinstance(given, str) and ":" in given and not given.startswith("gym:"):
        made = imported(given, "An environment must be a gymnasium.Env, gym:ID or module:factory.")
        try:
            env = made(**options)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the user's code may raise anything, and call exit
            raise InvalidInput(
                f"The factory '{given}' must return a gymnasium.Env. It raised {one_line(error)} instead."
            ) from error
        return check_environment(env, given), name or given
    if isinstance(given, str):
        env = make_environment(given.removeprefix("gym:"), options)
        return check_environment(env, given), name or f"gym:{given.removeprefix('gym:')}"
    called = name or type(given).__name__
    env = check_environment(given, called)
    if options:
        raise InvalidInput(
            "Only an environment that is given by its id takes options. "
            f"Got {', '.join(options)} for '{called}' instead."
        )
    spec = env.unwrapped.spec
    return env, name or (type(env.unwrapped).__name__ if spec is None else f"gym:{spec.id}")


def _set_bounds(observer: Observer, bounds: Any, name: str) -> None:
    """Replace the bounds of the space by the user's."""
    if bounds is None:
        return
    if observer.low is None:
        raise InvalidInput(f"The states of '{name}' are counted and take no 'bounds'. Got {bounds!r} instead.")
    try:
        low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), observer.low.shape).copy() for end in bounds)
    except (TypeError, ValueError, LookupError, OverflowError):
        low = high = np.zeros(0)
    must = f"be two numbers or two vectors of {len(observer.low)}, the lower first"
    expect(low.size and (low < high).all(), f"'bounds' of '{name}'", must, bounds)
    observer.low, observer.high = low, high


def _feature_map(given: Any, what: str, of: str) -> FeatureMap:
    """The feature map for an argument: its name, or the map itself; a function of `of` is another way to give one."""
    found = make_features(given) if isinstance(given, str) else given
    must = f"be the name of a feature map, a FeatureMap or a function of {of}"
    expect(isinstance(found, FeatureMap), what, must, given)
    return cast(FeatureMap, found)


def _start_features(xi: Any, observer: Observer, name: str) -> Any:
    """Features of starts: an array [S, d'] if states are numbers, fitted features otherwise, None for 1."""
    if xi is None:
        return None
    if observer.n_states is not None:
        return _start_rows(xi, observer.n_states, isinstance(observer, CountedObservations), name)
    assert observer.low is not None
    assert observer.high is not None
    function = callable(xi) and not isinstance(xi, FeatureMap)
    xi = _feature_map(make_features("user", {"function": xi}) if function else xi, f"'xi' of '{name}'", "the state")
    unbounded = np.flatnonzero(~((observer.low > -UNBOUNDED) & (observer.high < UNBOUNDED))).tolist()
    if unbounded and xi.name != "user":
        raise InvalidInput(
            f"The features 'xi' of starts need a scale, and entry {unbounded[0]} of the observations "
            f"of '{name}' ({observer.names[unbounded[0]]}) is unbounded: state bounds=(low, high)."
        )
    try:
        return xi.fit(np.zeros((0, len(observer.low))), observer.low, observer.high, XI_SEED)
    except ResetFreeError:
        raise
    except Exception as error:  # the user's function
        raise InvalidInput(
            f"The 'xi' of '{name}' must turn a state [{len(observer.low)}] into a vector. "
            f"It raised {one_line(error)} instead."
        ) from error


def _start_rows(xi: Any, n_states: int, known: bool, name: str) -> Floats:
    """[S, d'], from rows for all states but the reset state, where no episode starts, or a function of the state."""
    n = n_states - 1
    try:
        rows = np.array([np.ravel(xi(s)) for s in range(n)] if callable(xi) and known else xi, dtype=np.float64)
        wrong = rows.ndim != 2 or len(rows) != n or not np.isfinite(rows).all()
    except Exception:  # the user's function, or not an array
        wrong = True
    must = f"be finite numbers [{n}, d], one row per state{', or a function of the state' if known else ''}"
    expect(not wrong, f"'xi' of '{name}'", must, xi)
    return np.vstack([rows, np.zeros(rows.shape[1])])
