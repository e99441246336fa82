"""What the players share that take only actions which can still be safe: settings, counts, plans, their statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from resetfree.core.settings import NonNegative, Probability
from resetfree.game.capabilities import Proof
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement
from resetfree.players.elimination.elimination_sets import EliminationState, LargeEliminationState, is_endless, no_sets
from resetfree.players.requirements import check_episodes
from resetfree.players.tabular.count_players import BERNSTEIN, HOEFFDING, Bonus, Ties, multiplier, noise_of, union_bound
from resetfree.players.tabular.large_problems import begin
from resetfree.problems.contract import Problem, State


@dataclass(frozen=True)
class EliminationPlayer(PrimalPlayer[EliminationState | LargeEliminationState]):
    """Optimism about rewards inside the actions that its state allows.  Settings: see `support-elimination`."""

    prediction: ClassVar[Prediction] = "low"
    scale: NonNegative = 0.05
    width: Literal["tuned", "theory"] = "tuned"
    pooled: bool | None = None
    ties: Ties = "learned"
    noise: NonNegative = 0.0
    p: Probability = 0.05

    def init(self, problem: Problem, episodes: int, seed: int) -> EliminationState | LargeEliminationState:
        """No data yet: every action can be safe."""
        check_episodes(episodes, self.name)
        pooled = problem.stationary if self.pooled is None else self.pooled
        log_term, noise = self._log_term(problem, episodes, pooled), noise_of(problem, self.noise, self.width)
        data = begin(problem, self.name, pooled, self.ties, log_term, noise=noise, seed=seed)
        return no_sets(data, problem, is_endless(problem, self.pooled))

    def plan(self, state: EliminationState | LargeEliminationState, s1: State, lam: float) -> Plan:
        """The optimistic plan inside the allowed actions, whose estimated cost is zero under any multiplier."""
        multiplier(state.data, lam, False)
        return state.plan(s1, Bonus(self._form, state.data.log_term, state.data.noise, 0.0, 0.0))

    def update(
        self, state: EliminationState | LargeEliminationState, round: Round
    ) -> EliminationState | LargeEliminationState:
        """Count the steps; after a new edge or a new reset state compute again which actions can be safe."""
        state.learn(round)
        return state

    def proof(self, problem: Problem) -> Proof:
        """Of its optimism: rewards no noisier than the width counts on."""
        return Proof(failure=self.p, noise=noise_of(problem, self.noise, self.width))

    def keeps_steps_apart(self, problem: Problem) -> bool:
        """Whether what is unsafe at one step may be safe at another."""
        return not is_endless(problem, self.pooled)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The bound on resets holds with any constants; nothing is claimed about regret."""
        endless, pairs = is_endless(problem, self.pooled), (problem.n_states or 0) * problem.n_actions
        most = float(pairs * (1 if endless else problem.horizon))
        eliminates, what = ("(s, a)", "pair") if endless else ("(h, s, a)", "triple")
        constants: dict[str, float | str | bool] = {"scale": self.scale, "width": self.width, "p": self.p}
        constants |= {"eliminates": eliminates, "noise": noise_of(problem, self.noise, self.width)}
        path = f"on every path at most one reset for each unsafe {what} {eliminates}, where Assumption 1 holds"
        covered, regret = self._claim()
        return Statement(constants, covered, f"{path}; {regret}", most)

    def _claim(self) -> tuple[bool, str]:
        """Whether a theorem covers its regret, and the words for it."""
        return False, "its regret is tuned"

    @property
    def _form(self) -> int:
        """Of the reward bonus."""
        return BERNSTEIN if self.width == "tuned" else HOEFFDING

    def _log_term(self, problem: Problem, episodes: int, pooled: bool) -> float:
        """L, the logarithm in the widths."""
        if self.width == "tuned":
            return 2.0 * self.scale**2
        m = 2 if noise_of(problem, self.noise, self.width) > 0 else 1
        return union_bound(problem, episodes, pooled, m, self.p)
