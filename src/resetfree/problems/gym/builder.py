"""Makes a `GymProblem` from the arguments of `from_gym`; all are checked before the first step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from resetfree.core.arguments import words
from resetfree.core.errors import InvalidInput, ResetFreeError
from resetfree.core.naming import imported, one_line
from resetfree.core.settings import check
from resetfree.problems.features import FeatureMap, make_features
from resetfree.problems.features.user import UserFeatures
from resetfree.problems.finite.checks import check_horizon
from resetfree.problems.finite.transitions import Floats
from resetfree.problems.gym.actions import learner_actions
from resetfree.problems.gym.adapter import GymProblem, Terms
from resetfree.problems.gym.events import reset_event, reward_function
from resetfree.problems.gym.making import Env, changed_by, check_environment, lift_time_limits, make_environment
from resetfree.problems.gym.model_tables import NoTable, read_table
from resetfree.problems.gym.observations import CountedObservations, Observer, observer_for
from resetfree.problems.gym.rewards import Rewards
from resetfree.problems.operators import Automatic, Operator

UNBOUNDED = 1e30  # bounds beyond this count as none
XI_SEED = 0  # features of starts are part of the problem, not of a run


def build(env: Any, *, name: str | None, make_options: Mapping[str, Any], **options: Any) -> GymProblem:
    """The problem of `from_gym`; an environment that is made here is closed if it cannot be used."""
    if name is not None:
        words(name, "name of a problem")
    made, called = _environment(env, make_options, name)
    try:
        problem = _adapted(made, called, **options)
    except BaseException:
        if isinstance(env, str):
            made.close()
        raise
    if isinstance(env, str):
        problem.remake = lambda: _environment(env, make_options, name)[0]
    return problem


def _adapted(
    env: Any,
    called: str,
    *,
    horizon: int,
    features: Any,
    xi: Any,
    reset_when: Any,
    reward: Any,
    reward_range: Any,
    actions: Any,
    states: int | None,
    bounds: Any,
    table: bool,
    operator: Operator | None,
) -> GymProblem:
    check_horizon(horizon, f"'{called}'")
    check(table, bool, f"'table' of '{called}'")
    lift_time_limits(env)
    function = None if isinstance(features, str | FeatureMap | None) or not callable(features) else features
    observer = observer_for(env.observation_space, function, states, called)
    _set_bounds(observer, bounds, called)
    feature_map = None if observer.n_states is not None else _feature_map(features, function, called)
    if observer.n_states is not None and function is None and features is not None:
        raise InvalidInput(f"The states of '{called}' are counted and take no feature map. Got {features!r} instead.")
    spec = env.unwrapped.spec
    terms = Terms(
        environment=_class_name(env.unwrapped) if spec is None else spec.id,
        made_with=() if spec is None else tuple(sorted(spec.kwargs.items())),
        wrappers=tuple(changed_by(env)),
        reset_when=reset_event(reset_when, called),
        rewards=Rewards.within(reward_function(reward, called), reward_range, called),
        actions=learner_actions(env.action_space, actions, called),
        function=function,
    )
    start_features = _start_features(xi, observer, called)
    model, no_table = None, ""
    try:
        if not table:
            raise NoTable("is played without its table (table=False)")
        if not (isinstance(observer, CountedObservations) and isinstance(env.action_space, spaces.Discrete)):
            raise NoTable("is not a finite problem")
        if terms.wrappers:
            raise NoTable(f"is changed by {', '.join(terms.wrappers)}")
        if env.observation_space.start or env.action_space.start:
            raise NoTable("does not count from 0")
        n = int(env.observation_space.n)
        model = read_table(env.unwrapped, n, terms, horizon=int(horizon), name=called, xi=start_features)
        terms = dataclasses.replace(terms, table=model.transition, table_reward=model.reward)
    except NoTable as error:
        no_table = f"There is no exact oracle for '{called}': it {error}."
    return GymProblem(
        env,
        called,
        int(horizon),
        terms,
        observer,
        features=feature_map,
        xi=start_features,
        operator=Automatic() if operator is None else operator,
        model=model,
        no_table=no_table,
    )


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


def _class_name(env: Env) -> str:
    return f"{type(env).__module__}.{type(env).__qualname__}"


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
    if not low.size or not (low < high).all():
        raise InvalidInput(
            f"The 'bounds' of '{name}' must be two numbers or two vectors of {len(observer.low)}, the lower first. "
            f"Got {bounds!r} instead."
        )
    observer.low, observer.high = low, high


def _feature_map(features: Any, function: Callable[[Any], Any] | None, name: str) -> FeatureMap:
    """The map from vector states to the player's features."""
    if function is not None:
        return UserFeatures()
    if features is None or isinstance(features, str):
        return make_features(features or "random-fourier")
    if not isinstance(features, FeatureMap):
        raise InvalidInput(
            f"The 'features' of '{name}' must be the name of a feature map, a FeatureMap or a function of the "
            f"observation. Got {features!r} instead."
        )
    return features


def _start_features(xi: Any, observer: Observer, name: str) -> Any:
    """Features of starts: an array [S, d'] if states are numbers, fitted features otherwise, None for 1."""
    if xi is None:
        return None
    if observer.n_states is not None:
        return _start_rows(xi, observer.n_states, isinstance(observer, CountedObservations), name)
    assert observer.low is not None
    assert observer.high is not None
    if callable(xi) and not isinstance(xi, FeatureMap):
        xi = UserFeatures(xi)
    elif isinstance(xi, str):
        xi = make_features(xi)
    if not isinstance(xi, FeatureMap):
        raise InvalidInput(
            f"The 'xi' of '{name}' must be the name of a feature map, a FeatureMap or a function of the state. "
            f"Got {xi!r} instead."
        )
    wide = ~((observer.low > -UNBOUNDED) & (observer.high < UNBOUNDED))
    if wide.any() and not isinstance(xi, UserFeatures):
        raise InvalidInput(
            f"The features 'xi' of starts need a scale, and entry {int(np.flatnonzero(wide)[0])} of the observations "
            f"of '{name}' is unbounded: state bounds=(low, high)."
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
    if wrong:
        function = ", or a function of the state" if known else ""
        raise InvalidInput(
            f"The 'xi' of '{name}' must be finite numbers [{n}, d], one row per state{function}. Got {xi!r} instead."
        )
    return np.vstack([rows, np.zeros(rows.shape[1])])
