"""A controller of the user's, and a learner that takes over only where it is better by a test (`takeover`).

The controller acts first, and the learner learns from its episodes. Where the learner can, it searches from what the
controller does: a controller's states are narrow, and a policy that is near to it stays among them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Count, Floats, InvalidInput, RunError, check, imported, one_line, require, shown
from resetfree.game.capabilities import Decides, Decision, Exploits, Follows, LearnsFromEpisodes
from resetfree.game.contract import Plan, PrimalPlayer, Round, Statement
from resetfree.players.takeover import ERROR, Comparison, SafeStates, Verdict, within_region
from resetfree.problems import Box, Choices, Episode, Note, Policy, Problem, State
from resetfree.problems.action_spaces import own_action
from resetfree.problems.finite.tabular_policy import TabularPolicy, as_policy
from resetfree.problems.stepping import playable

EXPLORE = 3  # resets that the learned policy may cause, where none are stated
FIRST = 10  # episodes of the controller before the first trial
FIRST_STEPS = 500  # and at least so many steps
DANGER = 0.2  # predicted probability of a reset from which the controller acts
ROUNDING = 1e-3  # of the width of the box, by which a controller's action may lie outside without a note
PAUSE = 5  # episodes of the controller then
WORTHWHILE = 0.005  # predicted gain in reward per step from which a policy is tried
LATER = 2.0  # factor of the episodes after which a policy that was worse is tried again
Function = Callable[[Any], Any]
NOT_IN_CHARGE = (
    "The controller acts in this run: there is no learned policy that was shown to be better. Use the controller, or "
    "learn longer."
)
EXPECTED = "The 'controller' of learn must be a function of the observation, or module:function."


@dataclass(frozen=True)
class ControllerPolicy(Policy):
    """The controller, called with the observation of a state."""

    function: Function
    problem: Problem
    says: bool = False  # whether it is noted that actions are cut to the box

    def act(self, h: int, s: State, u: Any) -> Any:
        """Its action as the learner has it; raises InvalidInput for one that the environment does not have."""
        try:
            native = self.function(self.problem.observation_of(s))
        except Exception as error:  # the user's code
            raise InvalidInput(
                f"{EXPECTED} It raised {one_line(error)} for an observation of '{self.problem.name}'."
            ) from error
        found = own_action(self.problem.actions, native, f"The controller of '{self.problem.name}'")
        if self.says and isinstance(self.problem.actions, Box):
            self._note_cut(np.ravel(native), found)
        return found

    def _note_cut(self, wanted: Floats, found: Floats) -> None:
        """Note once that an action was not as the controller has it: units may differ."""
        low, high = self.problem.actions.ends  # type: ignore[union-attr]
        start, space = "Actions of the controller, such as", self.problem.actions
        words = f"{start} {shown(wanted.tolist())}, are cut to {space}: if they are in other units, convert them."
        far = (np.abs(wanted - found) > ROUNDING * (high - low)).any()
        if far and not any(one.what.startswith(start) for one in self.problem.noted):
            self.problem.noted.append(Note(0, words))


@dataclass(frozen=True)
class GuardedPolicy(Policy):
    """A learned policy where it was safe before, and the controller elsewhere."""

    learned: Policy
    controller: Policy
    region: NDArray[Any]  # see `within_region`

    def act(self, h: int, s: State, u: Any) -> Any:
        """The learned action inside, the controller's outside."""
        return (self.learned if within_region(self.region, s) else self.controller).act(h, s, u)


@dataclass
class ControllerTable(TabularPolicy):
    """The controller where states are counted."""


@dataclass
class GuardedTable(TabularPolicy):
    """A learned policy in the states that were safe before, and the controller in the others."""

    kind = ""  # what is exported is the learned policy
    learned: Any
    region: NDArray[Any]  # bool [S]


@dataclass
class ControlledState:
    """Who acts, what both have earned, and the state of the learner."""

    inner: Any
    problem: Problem = field(metadata={"saved": False})
    table: ControllerTable | None = field(metadata={"saved": False})  # of the controller, where states are counted
    safe: SafeStates
    trial: Comparison
    k: int = 0
    after_learned: bool = False  # whether the learned policy acted in the episode before
    charged: int = 0  # resets in episodes of the learned policy, and in those of the controller right after one
    rest: int = FIRST  # no trial before so many episodes
    totals: Floats = field(default_factory=lambda: np.zeros((2, 3)))  # by actor: episodes, rewards, resets
    changes: NDArray[np.int64] = field(  # [n, 2] the round of each decision, and which of `SAID` it is
        default_factory=lambda: np.zeros((0, 2), np.int64), metadata={"grows": (0,)}
    )

    def check_loaded(self) -> None:
        """Raise InvalidInput for decisions that do not exist."""
        require(self.changes.shape[1:] == (2,) and (self.changes[:, 1] < len(SAID)).all(), "decisions must be known")

    def decide(self, what: int) -> None:
        """Record a decision."""
        self.changes = np.concatenate([self.changes, np.array([[self.k, what]], np.int64)])


TOOK_OVER, GAVE_BACK, FELL, SPENT, WORSE = range(5)
SAID = (
    "the learned policy takes over: it is better than the controller by the test",
    "the controller acts again: the learned policy is worse by the test",
    "the controller acts again: the learned policy led to a reset",
    "the controller acts from here on: the resets that the learned policy may cause are spent",
    "the learned policy is worse than the controller by the test: it learns on before it is tried again",
)


@dataclass(frozen=True)
class Controlled(PrimalPlayer[ControlledState]):
    """The user's controller, and a learner that takes over where it is better by a test.

    The learned policy acts only while fewer than `explore` resets are charged to it: those of its own episodes, and one
    of an episode of the controller right after one of these that was not reset. So on every path

        resets <= resets of the controller in other episodes + explore.

    inner: the learner.
    function: the controller; None if the player was made from a run file, which holds no code.
    explore: resets that the learned policy may cause; with 0 only the controller acts.
    """

    name: ClassVar[str] = "controlled"
    action_spaces: ClassVar[tuple[type, ...]] = (Choices, Box)
    inner: PrimalPlayer[Any]
    function: Function | None = None
    explore: int = EXPLORE

    def __post_init__(self) -> None:
        check(self.explore, Count, "'explore' of learn")
        if not isinstance(self.inner, LearnsFromEpisodes):
            raise InvalidInput(
                "With a controller, the player must learn from episodes that it did not choose. Got "
                f"'{self.inner.name}', which cannot, instead: leave out primal, or name another."
            )

    def init(self, problem: Problem, episodes: int, seed: int) -> ControlledState:
        """The learner's own state, and nothing known about the controller."""
        state = self.inner.init(problem, episodes, seed)
        state = self.inner.act_beside(state) if isinstance(self.inner, Follows) else state
        first = max(FIRST, -(-FIRST_STEPS // problem.horizon))
        size = 1 if problem.low is None or problem.n_states is not None else len(problem.low)
        trial, safe = Comparison(seed, size), SafeStates.none(problem)
        trial.toss(0)
        return ControlledState(state, problem, self._table(problem), safe, trial, rest=first)

    def _table(self, problem: Problem) -> ControllerTable | None:
        """The controller as a table; None where states are vectors, or numbered as they appear."""
        if self.function is None or problem.n_states is None or "seen" in problem.saved():
            return None
        acts, rows = ControllerPolicy(self.function, problem), np.zeros((1, problem.n_states, problem.n_actions))
        for s in range(problem.n_states):
            known = problem.observation_of(s) is not None
            rows[0, s, acts.act(1, s, 0.5) if known else 0] = 1.0
        return ControllerTable(rows)

    def plan(self, state: ControlledState, s1: State, lam: float) -> Plan:
        """The learner's plan where it is its turn and predicts little danger and a gain; else the controller."""
        if self._is_due(state):
            found = self.inner.plan(state.inner, s1, lam)
            if not found.v_c > DANGER and not self._is_pointless(state):
                return found._replace(policy=self._guarded(state, found.policy), upper=float("nan"))
        episodes, rewards, resets = state.totals[0].tolist()
        n = max(episodes, 1.0)
        return Plan(self._controller(state), rewards / n, resets / n)

    def greedy(self, state: ControlledState, lam: float) -> Any:
        """The learned policy, for use elsewhere; raises RunError where it was not shown to be better."""
        if not state.trial.in_charge or state.charged >= self.explore:
            raise RunError(NOT_IN_CHARGE)
        if isinstance(self.inner, Exploits):
            return self.inner.greedy(state.inner, lam)
        starts, counted = state.trial.starts, state.problem.n_states is not None
        last = starts[-1] if len(starts) else np.zeros(1) if counted else state.safe.mean
        return self.inner.plan(state.inner, int(last[0]) if counted else last, lam).policy

    def _is_due(self, state: ControlledState) -> bool:
        """Whether the learned policy may act now."""
        return state.trial.trying and state.k >= state.rest and state.charged < self.explore

    def _is_pointless(self, state: ControlledState) -> bool:
        """Whether the learner predicts for its last plan that it is no better than the controller."""
        return isinstance(self.inner, Follows) and 0.0 != self.inner.gain(state.inner) < WORTHWHILE

    def _controller(self, state: ControlledState) -> Policy:
        if self.function is None:
            raise RunError(NOT_IN_CHARGE)
        return ControllerPolicy(self.function, state.problem, state.k == 0) if state.table is None else state.table

    def _guarded(self, state: ControlledState, learned: Any) -> Policy:
        """A learned policy with the controller as its fallback; without its fallback if that is not known here."""
        region = state.safe.allowed()
        if state.table is not None:
            rows = as_policy(learned, state.problem)  # type: ignore[arg-type]
            return GuardedTable(np.where(region[:, None], rows, state.table.probabilities), learned, region)
        controller = playable(learned, state.problem) if self.function is None else self._controller(state)
        return GuardedPolicy(playable(learned, state.problem), controller, region)

    def update(self, state: ControlledState, round: Round) -> ControlledState:
        """Learn from the episode, whoever acted; then decide who acts next."""
        policy, episode, due = round.plan.policy, round.episode, self._is_due(state)
        is_learned = isinstance(policy, GuardedPolicy | GuardedTable)
        if due and isinstance(self.inner, Follows):
            state.trial.gain = self.inner.gain(state.inner)
        if is_learned and all(within_region(policy.region, s) for s in episode.states[: len(episode.actions)]):
            own = round._replace(plan=round.plan._replace(policy=policy.learned))
            state.inner = self.inner.update(state.inner, own)
        elif is_learned:
            state.inner = self._absorbed(state.inner, episode)
        else:
            state.inner = self._shown(state.inner, episode)
        state.safe.see(episode.states, reset=episode.reset)
        state.totals[int(is_learned)] += (1.0, episode.total_reward, float(episode.reset))
        state.k += 1
        is_charged = episode.reset and (is_learned or state.after_learned)
        state.after_learned = is_learned and not episode.reset
        value = (episode.total_reward - round.lam * episode.reset) / state.problem.horizon
        value = min(max(value, 0.0), 1.0)
        start = np.asarray(episode.states[0], dtype=np.float64).reshape(-1)
        if is_charged:
            self._charge(state)
        elif state.charged < self.explore and (is_learned or due or (state.k > state.rest and not state.trial.trying)):
            self._weigh(state, state.trial.add(start, value, state.k))
        state.trial.see(start, value, controller=not (is_learned or episode.reset))
        if due and not is_learned:  # danger was predicted, or no gain
            state.rest = max(state.rest, state.k + PAUSE)
        return state

    def _charge(self, state: ControlledState) -> None:
        """A reset that the learned policy caused: the controller acts."""
        state.charged += 1
        state.decide(SPENT if state.charged >= self.explore else FELL)
        state.rest = state.k + FIRST * 2**state.charged
        state.trial.begin_test(state.k)

    def _weigh(self, state: ControlledState, found: Verdict) -> None:
        """What an episode has shown."""
        if found is Verdict.BETTER:
            state.decide(TOOK_OVER)
            state.trial.begin_test(state.k, in_charge=True)
        elif found is Verdict.WORSE:
            state.decide(GAVE_BACK if state.trial.in_charge else WORSE)
            state.rest = int(LATER * state.k)
            state.trial.begin_test(state.k)
        elif found is Verdict.POOR:
            state.rest = state.k + FIRST

    def absorb(self, state: ControlledState, episode: Episode) -> ControlledState:
        """Learn from an episode of data, whose states are known to be safe."""
        state.inner = self._absorbed(state.inner, episode)
        state.safe.see(episode.states, reset=episode.reset)
        return state

    def follow(self, state: ControlledState, episode: Episode) -> ControlledState:
        """As `absorb`, of behaviour that is to be improved on."""
        state.inner = self._shown(state.inner, episode)
        state.safe.see(episode.states, reset=episode.reset)
        return state

    def _shown(self, inner: Any, episode: Episode) -> Any:
        return self.inner.follow(inner, episode) if isinstance(self.inner, Follows) else self._absorbed(inner, episode)

    def _absorbed(self, inner: Any, episode: Episode) -> Any:
        assert isinstance(self.inner, LearnsFromEpisodes)
        return self.inner.absorb(inner, episode)

    def decisions(self, state: ControlledState) -> list[Decision]:
        """Who took over when and why, and what the learner decided itself."""
        own = [Decision(int(k), SAID[what]) for k, what in state.changes]
        inner = self.inner.decisions(state.inner) if isinstance(self.inner, Decides) else []
        return sorted([*own, *inner], key=lambda one: one.k)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The resets of the learned policy are counted, and it stops at `explore`; nothing else is proved."""
        why = (
            f"no theorem is claimed; by construction at most {self.explore} resets beyond those of the controller's "
            f"own episodes, and the learned policy takes over only by a test with the error {ERROR:g}"
        )
        return Statement({"explore": self.explore, "error": ERROR}, False, why)


def named(given: Any) -> tuple[Function, str | None]:
    """The controller of an argument, and module:function if that names it; text is imported: only for what was typed.

    >>> from math import sqrt
    >>> named(sqrt)[1], named(lambda observation: 0)[1]
    ('math:sqrt', None)
    """
    function = imported(given, EXPECTED) if isinstance(given, str) and ":" in given else given
    if not callable(function):
        raise InvalidInput(f"{EXPECTED} Got {given!r} instead.")
    if isinstance(given, str):
        return function, given
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "<")
    return function, None if module is None or "<" in name else f"{module}:{name}"


def with_controller(player: PrimalPlayer[Any], function: Function | None, explore: int) -> PrimalPlayer[Any]:
    """A player that acts only where it is better than a controller."""
    return Controlled(player, function, explore)


def under_controller(player: Any, explore: int | None) -> Any:
    """The player of a run file, whose controller is not known here; itself for a run without one (`explore` None)."""
    return player if explore is None else Controlled(player, None, explore)


def learner_of(player: Any) -> Any:
    """The player that learns beside a controller; any other player itself."""
    return player.inner if isinstance(player, Controlled) else player
