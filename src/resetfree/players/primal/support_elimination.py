"""Support elimination, a learned shield: what was seen to lead where a reset cannot be avoided is never done again.

Legend: W the states that can still be safe given the observed edges and reset states; allowed the actions whose
observed successors all lie in W. The true safe sets lie inside the learned ones on every path: nothing safe is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, cast

from resetfree.core.settings import NonNegative, Probability
from resetfree.game.capabilities import Partner, Proof, Suited
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement
from resetfree.players.shared.batched.form import BatchedForm
from resetfree.players.shared.count_players import Ties, multiplier, noise_of, union_bound
from resetfree.players.shared.elimination_sets import EliminationState, LargeEliminationState, is_endless, no_sets
from resetfree.players.shared.given_episodes import TakesEpisodes
from resetfree.players.shared.kernels.count_planning import BERNSTEIN, HOEFFDING, Bonus
from resetfree.players.shared.large_problems import begin
from resetfree.players.shared.method import Method, penalised
from resetfree.players.shared.requirements import check_episodes
from resetfree.problems.contract import Problem, State


@dataclass(frozen=True)
class SupportElimination(TakesEpisodes, PrimalPlayer[EliminationState | LargeEliminationState]):
    """An optimistic reward learner (UCBVI) that only takes actions which can still be safe; it needs no multiplier.

    On every path, whatever the constants: each reset removes at least one unsafe pair for good, so resets never exceed
    the number of unsafe pairs (s, a) (of triples (h, s, a) where dynamics, contexts or ends of episodes differ, or data
    are not pooled), for every K. Proof: an episode that is reset took, at its first step out of W or at its last, an
    allowed action whose observed successor is now known to be bad; that pair is truly unsafe, and is not allowed again.

    Large problems: the sets follow the news of each episode (new edges, a new reset state, and the predecessors of what
    turned bad), and the plan goes only where the episode can be (`lazy_plans`): both equal those of passes over
    everything, so both guarantees are kept. Planning only when some pair was tried twice as often would keep them
    too, since the sets do not wait for a plan, but it saves nothing here: as long as there is much to see, every
    episode tries some pair for the first time, and afterwards a plan costs less than the episode.

    width: of the reward bonus. "tuned": the smaller of scale rest / sqrt(n) and its variance-aware form, rest = H-h.
      "theory": rest sqrt(L / 2n) + noise sqrt(2 L / n) with L = log(m S A H K / p) (pooled: H K samples per pair, so K
      becomes H K), optimistic for pi* with probability 1 - p: pi* is among the allowed actions, and only its value must
      concentrate (m = 1), and the mean of the rewards where these are random (m = 2).
    noise: see `ucbvi`; with width "theory" it is never less than what the problem declares for its rewards.
    pooled: one set of counts for all steps where the dynamics are stationary; None for "where that is so".
    ties: see `ucbvi`: among untried actions, which is risked first.

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", "support-elimination", episodes=2000)
    >>> int(run.realised_resets[-1]) <= 18
    True
    """

    name: ClassVar[str] = "support-elimination"
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
        return no_sets(data, problem, self._endless(problem))

    def plan(self, state: EliminationState | LargeEliminationState, s1: State, lam: float) -> Plan:
        """The optimistic plan inside the allowed actions, whose estimated cost is zero under any multiplier."""
        multiplier(state.data, lam, False)
        form = BERNSTEIN if self.width == "tuned" else HOEFFDING
        return state.plan(s1, Bonus(form, state.data.log_term, state.data.noise, 0.0, 0.0))

    def update(
        self, state: EliminationState | LargeEliminationState, round: Round
    ) -> EliminationState | LargeEliminationState:
        """Count the steps; after a new edge or a new reset state compute again which actions can be safe."""
        state.learn(round)
        return state

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Finitely many states without features: nothing else bounds resets on every path."""
        if problem.actions.n is None or problem.n_states is None or problem.phi is not None:
            return None
        why = (
            "the states are finite and no features are given: what was seen to lead to a reset is never done again, so "
            "resets are bounded on every path, and no bound on multipliers is needed"
        )
        return Suited(1, why, Partner("constant-penalty", "realised", {"C": 0.0}))

    def proof(self, problem: Problem) -> Proof:
        """Of its optimism: rewards no noisier than the width counts on."""
        return Proof(failure=self.p, noise=noise_of(problem, self.noise, self.width))

    def keeps_steps_apart(self, problem: Problem) -> bool:
        """Whether what is unsafe at one step may be safe at another."""
        return not self._endless(problem)

    def batched_form(self, problem: Problem, episodes: int) -> BatchedForm:
        """The same counts and sets in every row."""
        from resetfree.players.shared.batched.batched_optimistic import Optimistic, learned_ties

        ties, fresh = learned_ties(self.name, self.ties), cast(EliminationState, self.init(problem, episodes, 0))
        form, data = BERNSTEIN if self.width == "tuned" else HOEFFDING, fresh.data
        noisy, layers = data.noise > 0, len(fresh.allowed)
        program = Optimistic(len(data.tried), form, ties, noisy, allowed_layers=layers, endless=fresh.endless)
        return BatchedForm(program, {"log_term": data.log_term, "noise": data.noise, "cost_part": 0.0})

    @staticmethod
    def methods() -> list[Method]:
        """With a tuned and with the proved width of the reward bonus; it needs no multiplier."""
        tuned = penalised(lambda s: SupportElimination(**s.own), 0.0)
        proved = penalised(lambda s: SupportElimination(width="theory", pooled=s.pooled), 0.0)
        text = "What was seen to lead to a reset is never done again; tuned reward bonus."
        same, name = "The same with the reward bonus of its regret bound.", "support elimination, proved width"
        return [
            Method("support elimination", "ours", text, tuned, rank=31, guaranteed=True),
            Method(name, "ours", same, proved, rank=31, widths=(), guaranteed=True),
        ]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The bound on resets holds with any constants; optimism only with the proved width."""
        endless, pairs = self._endless(problem), (problem.n_states or 0) * problem.n_actions
        most = float(pairs * (1 if endless else problem.horizon))
        eliminates, what = ("(s, a)", "pair") if endless else ("(h, s, a)", "triple")
        noise = noise_of(problem, self.noise, self.width)
        constants: dict[str, float | str | bool] = {"scale": self.scale, "width": self.width, "p": self.p}
        constants |= {"eliminates": eliminates, "noise": noise}
        path = f"on every path at most one reset for each unsafe {what} {eliminates}, where Assumption 1 holds"
        if self.width == "theory":
            return Statement(constants, True, f"{path}; optimistic with probability 1 - p", most)
        return Statement(constants, False, f"{path}; its regret is tuned", most)

    def _endless(self, problem: Problem) -> bool:
        """Whether safety may mean a life without end: nothing changes with the step, the context or at the end."""
        return is_endless(problem, self.pooled)

    def _log_term(self, problem: Problem, episodes: int, pooled: bool) -> float:
        """L, the logarithm in the widths."""
        if self.width == "tuned":
            return 2.0 * self.scale**2
        m = 2 if noise_of(problem, self.noise, self.width) > 0 else 1
        return union_bound(problem, episodes, pooled, m, self.p)
