"""Policy search in a learned model: for vector states with smooth dynamics, where every reset is expensive.

Legend: z = (s - centre) / scale; lam the price of a reset; P steps planned ahead. `machine_search` has the search.
`LinearScores` is what it found among choices in earlier versions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput, NotCertifiable
from resetfree.core.settings import Count, Positive, PositiveInt, Range
from resetfree.core.state import saved_name
from resetfree.game.capabilities import Decision, Partner, Suited
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.game.replay_buffer import check_pooling, empty_buffer
from resetfree.players import check_room
from resetfree.players.model_based.machine_search import GENTLE, NOTHING, MachineSearchState
from resetfree.players.model_based.search_state import BEGAN, SearchSettings, SearchState
from resetfree.players.model_based.smooth_regression import CENTRES
from resetfree.players.requirements import CHARGE, SENSORS, for_machines
from resetfree.problems.action_spaces import Box, Choices
from resetfree.problems.contract import ChoicePolicy, Episode, Problem, State
from resetfree.problems.formula import Formula, TanhChoice, TanhPolicy, no_choice, no_policy


@dataclass
class LinearScores(ChoicePolicy):
    """The action of largest weight[a].s + bias[a]; without weights, every action is equally likely."""

    kind = "LinearScores"
    axes: ClassVar[dict[str, str]] = {"weight": "AD", "bias": "A"}
    stationary = True
    weight: Floats  # [A, D]
    bias: Floats = field(metadata={"saved_as": "offset"})  # [A]

    def __call__(self, h: int, s: State) -> Floats:
        """Probabilities [A], the same at every step."""
        if not self.weight.any():
            return np.full(len(self.bias), 1.0 / len(self.bias))
        scores = self.weight @ np.atleast_1d(np.asarray(s, dtype=np.float64)) + self.bias
        row = np.zeros(len(scores))
        row[scores.argmax()] = 1.0
        return row

    def formula(self, state: Formula) -> Formula:
        """The mode, for export; without weights the first action."""
        bias = self.bias if self.weight.any() else np.zeros_like(self.bias)
        return state.affine(self.weight.T, bias).argmax()


FAINT = 1e-6  # largest weight of such a policy


@dataclass(frozen=True)
class ModelSearch(SearchSettings, PrimalPlayer[SearchState[Any]]):
    """The best response to lam in a model that is fitted to all transitions, whatever the actions are.

    The model is a set of Gaussian processes whose scales are learned, those of the reward apart from those of the
    motion; rollouts use `draws` posterior samples of the dynamics, and half of them start where a step led that the
    model cannot explain, such as a set point that moves by itself. Actions of a list are points of a box where they are
    vectors of levels, else each has a direction of its own; what a policy says is rounded to the nearest.

    The policy is the tanh of a linear function of z, found by CMA-ES, or has hidden units that imitate what value
    iteration over visited states chooses, where states are short; the best in rollouts is then improved by their exact
    gradient. The last quarter of a rollout counts for more, since the machine runs on. Reset states are found by a
    logistic regression on squares, and by walls. The first actions of a box are small ones around its middle, since
    many machines are at rest there, unless it is stated that nothing is a reset. A policy that has not fallen is not
    replaced while the model wrongly predicts its resets, and one that is proven by a long time without a reset only by
    one that earns more; if that one falls or earns less, the proven one is played again. So a machine with a proven
    policy pays at most one reset for a new policy, and new ones are tried when the rows have grown by `growth`: as
    often as the logarithm of the steps.

    Leaving the box of all visited states is risky in proportion to the distance (`caution`); a rollout takes that risk
    once for its farthest state, and `caution` is an initial value: it decreases with every width visited outside of the
    box without a reset, and increases with every reset. Where the reward has not risen for long, it explores: without
    any caution, and in turn for unseen states, where nothing has ever been a reset; with less caution, after a time
    that grows with the number of resets, where something was. Rounds in which it began to are recorded.

    A rare prize (one step in 20 at most, all others earn the same) is not fitted but expected where the nearest known
    state won it. A rollout ends with it, the sooner the better.

    Nothing is proved. The advantage is sample efficiency: dynamics are learned from a few dozen steps, where a
    regression of values must see the danger again and again.

    planning: P, the length of a rollout; the policy is the same at every step, so danger may lie beyond an episode.
    caution: the probability of a reset outside the box of all visited states, per width of the box.
    waves, bandwidth, reg: of a former model of choices; read from earlier files, and without effect.
    growth: plan again when the rows have grown by this factor; a reset always leads to a new plan.
    population: candidate policies in a generation of the search.
    rounds: generations of the search.
    starts: visited states from which rollouts start.
    least: transitions before the first search.
    draws: posterior samples of the dynamics.
    units: whether a policy may have hidden units; else it is linear.
    """

    name: ClassVar[str] = "model-search"
    suited_states = ("vectors",)
    prediction: ClassVar[Prediction] = "high"
    vectors_only: ClassVar[bool] = True
    action_spaces: ClassVar[tuple[type, ...]] = (Choices, Box)
    waves: Count = 30
    bandwidth: Positive = 3.0
    reg: Positive = 1e-2
    growth: Annotated[float, Range(above=1)] = 1.3
    least: PositiveInt = 10

    def init(self, problem: Problem, episodes: int, seed: int) -> SearchState[Any]:
        """No data yet; refuses problems whose states are not vectors, and layered ones."""
        if problem.n_states is not None or problem.low is None or problem.high is None:
            raise NotCertifiable(
                f"The player '{self.name}' needs states that are vectors. Got '{problem.name}' instead."
            )
        check_pooling(problem, self.name)
        length, reach = len(problem.low), 1.0 if problem.never_resets else GENTLE
        none = [
            no_policy(problem.actions, length, reach)
            if isinstance(problem.actions, Box)
            else no_choice(problem.actions, length)
            for _ in range(2)
        ]  # two: a file is read into each
        inputs = 1 + length + CENTRES + len(none[0].weight)
        size = 8 * inputs * (inputs + self.draws * (length + 1))
        check_room(problem, self.name, size, "a fitted model", "learn from fewer numbers, observe=f")
        size = 8 * inputs * (self.starts + BEGAN) * (self.planning + self.population)
        check_room(problem, self.name, size, "model rollouts", "give less for 'planning', 'starts' or 'population'")
        world: dict[str, Any] = {"horizon": problem.horizon, "seed": seed, "low": problem.low, "high": problem.high}
        world |= {"never_resets": problem.never_resets, "names": tuple(getattr(problem, "names", None) or ())}
        world |= {"limits": problem.limits, "action_limits": problem.action_limits, "shown": np.zeros((0, 2), np.int64)}
        world["beside"] = False
        fresh: dict[str, Any] = {
            "at": 0,
            "lam": 0.0,
            "stale": False,
            **world,
            "models": {},
            "found": {},
            "compared": None,
        }
        return MachineSearchState(
            empty_buffer(problem), none[0], **fresh, proven=none[1], rate=NOTHING, began=0, given=0
        )

    def plan(self, state: SearchState[Any], s1: State, lam: float) -> Plan:
        """The policy that is kept while it is neither stale nor made for another multiplier; else a new one."""
        lam, n, policy = check_multiplier(lam), state.at, state.policy
        if state.stale or lam != state.lam or state.at == 0:
            n = state.rows.n
            if not self._can_plan(state, n):
                return Plan(policy, state.horizon / 2.0, 0.5)  # nothing is known
            policy = state.search(n, s1, lam, self)
        if state.beside:
            state.compare(n, policy, lam, self)
        return Plan(policy, *state.foresee(n, policy, s1, self))

    def update(self, state: SearchState[Any], round: Round) -> SearchState[Any]:
        """Keep the policy that was played, add the steps that were taken, and decide whether it is stale.

        The plan may rest on fewer rows than there are now; if another policy was decided on since, that one is kept.
        """
        rows, reset, waits = state.rows, round.episode.reset, state.stale or round.lam != state.lam
        is_late, is_new = round.rests_on < round.k - 1, not state.policy.same(round.plan.policy)
        n = rows.before_last(round.k - 1 - round.rests_on) if is_late else rows.n
        passed_over = is_new and is_late and not waits and state.at > 0
        if is_new and not passed_over:
            state.play(round.plan.policy)
        kept_anew = waits and self._can_plan(state, n) and (not is_late or self._was_due(state, n, round.lam))
        if kept_anew or (is_new and not passed_over):
            state.at, state.lam, state.stale = n, round.lam, False
        rows.add(round.episode)
        state.stale = state.stale or rows.n >= self.growth * state.at
        if passed_over:
            state.pass_over(reset=reset)
        else:
            state.stale = state.stale or reset
            state.weigh(reset=reset)
        return state

    def absorb(self, state: SearchState[Any], episode: Episode) -> SearchState[Any]:
        """Add the steps of an episode of data: the first plan rests on all of them."""
        state.rows.add(episode)
        state.begin_after_data()
        return state

    def act_beside(self, state: SearchState[Any]) -> SearchState[Any]:
        """A little outside of what was visited costs less: a controller brings it back."""
        state.beside = True
        return state

    def gain(self, state: SearchState[Any]) -> float:
        """That of the policy planned last, in the model."""
        return 0.0 if state.compared is None else state.compared[2]

    def follow(self, state: SearchState[Any], episode: Episode) -> SearchState[Any]:
        """Add the steps of an episode whose behaviour is to be improved on; one that was reset is only learned from."""
        first = state.rows.n
        state.rows.add(episode)
        if not episode.reset:
            state.show(first)
        state.pass_over(reset=episode.reset)
        state.stale = state.stale or state.rows.n >= self.growth * state.at
        return state

    def adopt(self, state: SearchState[Any], policy: Mapping[str, NDArray[Any]]) -> SearchState[Any]:
        """Play a policy first: it counts as proven, and is kept until it falls."""
        policy = _of_scores(policy, state.policy)
        own, lam = state.policy, np.asarray(policy.get("lam", 0.0))
        stored = {field.name: np.asarray(policy.get(saved_name(field))) for field in fields(own)}
        units = len(stored["shift"]) if stored["shift"].ndim else 0
        wanted = {name: getattr(own, name).shape for name in ("weight", "bias")}
        wanted |= {"hidden": (units, len(state.low)), "shift": (units,), "top": (len(own.weight), units)}
        arrays = {name: stored[name] for name in wanted if name in ("weight", "bias") or stored["shift"].ndim}
        fits = str(policy.get("kind")) == own.kind and lam.shape == () and lam.dtype.kind in "fi" and lam >= 0
        for name, array in arrays.items():
            fits = fits and array.dtype == np.float64 and array.shape == wanted[name]
            fits = fits and bool(np.isfinite(array).all())
        if not fits:
            raise InvalidInput(
                f"The player '{self.name}' cannot begin with this policy: it is of another kind or size."
            )
        state.begin_with(replace(own, **arrays), float(lam))
        return state

    def _can_plan(self, state: SearchState[Any], n: int) -> bool:
        """Whether there are transitions enough among the first n rows for a model."""
        return int(state.rows.taken(n).sum()) >= self.least

    def _was_due(self, state: SearchState[Any], n: int, lam: float) -> bool:
        """Whether a plan for lam that was made with the first n rows was a new one, though it kept the policy."""
        fell = state.rows.terminated[state.at : n].any()
        return bool(lam != state.lam or fell or n >= self.growth * state.at)

    def decisions(self, state: SearchState[Any]) -> list[Decision]:
        """When it explored, and where it has learned that resets begin; episodes of data count as rounds."""
        return [*state.explored(), *state.boundary()]

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Machines, and short vectors whose dynamics do not change with the step: the fit is good after few resets."""
        is_long = problem.low is None or len(problem.low) > SENSORS
        return None if problem.actions.n is not None and (is_long or not problem.stationary) else cls.named(problem)

    @classmethod
    def named(cls, problem: Problem) -> Suited | None:
        """As `auto` plays it, also where states are long: a penalty and settings for machines."""
        return for_machines(problem, 2, "the dynamics are fitted to all steps and a policy is searched for in the fit")

    @classmethod
    def partner(cls) -> Partner:
        """A constant penalty."""
        return Partner("constant-penalty", "realised", {"C": CHARGE})

    def steps_ahead(self, horizon: int) -> int:
        """P, the steps of a rollout in the model."""
        return self.planning

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Nothing is proved."""
        constants: dict[str, Any] = {"planning": self.planning, "caution": self.caution}
        return Statement(constants, False, "no theorem covers a policy found by search in a fitted model")


def _of_scores(policy: Mapping[str, NDArray[Any]], own: TanhPolicy | TanhChoice) -> Mapping[str, NDArray[Any]]:
    """A policy of earlier versions, which took the action of largest score, in the form of today's."""
    if str(policy.get("kind")) != LinearScores.kind or not isinstance(own, TanhChoice):
        return policy
    known = [np.asarray(policy.get(name)) for name in ("weight", "offset")]
    alike = [array.dtype == np.float64 and array.ndim and len(array) == len(own.table) for array in known]
    if not all(alike):
        return policy
    weight, bias = known
    if len(own.weight) == 1 and len(weight) == 2:
        weight, bias = weight[1:] - weight[:1], bias[1:] - bias[:1]
    most = max(float(np.abs(weight).max(initial=0.0)), float(np.abs(bias).max(initial=0.0)), 1e-300)
    small = FAINT / most if len(own.weight) > 1 else 1.0  # where tanh is a line, the order of scores is kept
    return {**policy, "kind": np.array(own.kind), "weight": small * weight, "offset": small * bias}
