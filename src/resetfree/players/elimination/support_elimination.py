"""Support elimination, a learned shield: what was seen to lead where a reset cannot be avoided is never done again.

Legend: W the states that can still be safe given the observed edges and reset states; allowed the actions whose
observed successors all lie in W. The true safe sets lie inside the learned ones on every path: nothing safe is lost.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import ClassVar, cast

import numpy as np

from resetfree.core.errors import InvalidInput
from resetfree.game.capabilities import Partner, PrimalRegretBound, Suited
from resetfree.players.batched import BatchedForm
from resetfree.players.elimination.elimination_sets import EliminationPlayer, EliminationState
from resetfree.players.method import Method, penalised
from resetfree.players.requirements import TakesEpisodes
from resetfree.players.tabular.count_players import TIE, noise_of
from resetfree.problems.contract import Problem
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.theory.certificates.anytime import DELTA
from resetfree.theory.proved_widths import log_corners
from resetfree.theory.visit_sums import CellKinds, bonus_distance, cells_of, sum_over_steps

NO_BATCH = "The batched engine plays 'support-elimination' with objective='episode' only. Got 'long-run' instead."


@dataclass(frozen=True)
class SupportElimination(TakesEpisodes, EliminationPlayer):
    """An optimistic reward learner (UCBVI) that only takes actions which can still be safe; it needs no multiplier.

    On every path, whatever the constants: each reset removes at least one unsafe pair for good, so resets never exceed
    the number of unsafe pairs (s, a) (of triples (h, s, a) where dynamics, contexts or ends of episodes differ, or data
    are not pooled), for every K. Proof: an episode that is reset took, at its first step out of W or at its last, an
    allowed action whose observed successor is now known to be bad; that pair is truly unsafe, and is not allowed again.
    Plans are inside the allowed actions at every step that moves. The last action of the literal boundary leads
    nowhere, so all are free there: none can be reset, and pi* may take one that is unsafe at every other step.

    Large problems: the sets follow the news of each episode (new edges, a new reset state, and the predecessors of what
    turned bad), and the plan goes only where the episode can be (`large_problems`): both equal those of passes over
    everything, so both guarantees are kept. Planning only when some pair was tried twice as often would keep them
    too, since the sets do not wait for a plan, but it saves nothing here: as long as there is much to see, every
    episode tries some pair for the first time, and afterwards a plan costs less than the episode.

    width: of the reward bonus. "tuned": the smaller of scale rest / sqrt(n) and its variance-aware form, rest = H-h.
      "theory": rest sqrt(L / 2n) + noise sqrt(2 L / n) with L = log(m S A H K / p) (pooled: H K samples per pair, so K
      becomes H K), optimistic for pi* with probability 1 - p: pi* is among the allowed actions, and only its value must
      concentrate (m = 1), and the mean of the rewards where these are random (m = 2).
    noise: see `ucbvi`; with width "theory" it is never less than what the problem declares for its rewards.
    objective: "episode", the paper's: what an episode earns; or "long-run", which `auto` takes: also what all that
      follow can earn (`long_run`). Which of the allowed actions is taken plays no part in the proof above, so the bound
      on resets is the same; the regret bound of width "theory" is about episodes, and is not claimed for the other.
    pooled: one set of counts for all steps where the dynamics are stationary; None for "where that is so".
    ties: see `ucbvi`: among untried actions, which is risked first.

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", "support-elimination", episodes=2000)
    >>> int(run.realised_resets[-1]) <= 18
    True
    """

    name: ClassVar[str] = "support-elimination"

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Finitely many states without features: nothing else bounds resets on every path."""
        if problem.actions.n is None or problem.n_states is None or problem.phi is not None:
            return None
        why = (
            "the states are finite and no features are given: what was seen to lead to a reset is never done again, so "
            "resets are bounded on every path, and no bound on multipliers is needed"
        )
        # For the episode: where goals lead elsewhere, plans beyond it were seen to stop finding them (a sticky maze).
        return Suited(1, why, Partner("constant-penalty", "realised", {"C": 0.0}))

    def batched_form(self, problem: Problem, episodes: int) -> BatchedForm:
        """The same counts and sets in every row; planning beyond the episode has no batched form."""
        if self.objective != "episode":
            raise InvalidInput(NO_BATCH)
        from resetfree.players.tabular.batched import Optimistic, learned_ties

        ties, fresh = learned_ties(self.name, self.ties), cast(EliminationState, self.init(problem, episodes, 0))
        data, layers = fresh.data, len(fresh.allowed)
        noisy = data.noise > 0
        program = Optimistic(len(data.tried), self._form, ties, noisy, allowed_layers=layers, endless=fresh.endless)
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

    def primal_regret_bound(self, problem: Problem, episodes: int, rounds: int) -> PrimalRegretBound | None:
        """Regret <= D with probability 1 - p - delta, by sums over visits; only with the width of its proof.

        V* <= V^k, as pi* is among the allowed actions, and V^k - V^{pi^k} is the expected sum of what a step adds: the
        bonus, and how far Phat V^k is from P V^k. V^k depends on the data, so that is for all sets of next states at
        once, with delta/2; delta/2 is for the sums (`theory.visit_sums`). R_p is Regret and lam times Resets.
        """
        assert problem.n_states is not None
        pairs, M = problem.n_states * problem.n_actions, log_corners(problem.n_states)
        alike = CellKinds([np.empty(0)], np.array([pairs]), M + log(pairs))
        return self._bound(problem, episodes, rounds, [alike] * problem.horizon)

    def regret_with_model(self, mdp: FiniteMDP, problem: Problem, episodes: int, rounds: int) -> float:
        """The same with what the model says of each pair: sets of outcomes that are possible, and their probability."""
        steps = range(1, mdp.horizon + 1)
        cells = [cells_of(mdp, 1)] * mdp.horizon if mdp.stationary else [cells_of(mdp, h) for h in steps]
        found = self._bound(problem, episodes, rounds, cells)
        assert found is not None
        assert found.regret is not None
        return found.regret

    def _bound(self, problem: Problem, episodes: int, rounds: int, cells: list[CellKinds]) -> PrimalRegretBound | None:
        if self.width != "theory" or self.objective != "episode":
            return None
        pooled = problem.stationary if self.pooled is None else self.pooled
        L, noise = self._log_term(problem, episodes, pooled), noise_of(problem, self.noise, self.width)
        layers = cells[:1] if pooled else cells
        log_term = max(one.log_sets for one in layers) + log(len(layers) / (DELTA / 2))
        extra = None if noise == 0 else lambda n: 2 * noise * sqrt(2 * L / n)  # of the mean, and of the bonus
        distance = bonus_distance(log_term, L)
        sums = sum_over_steps(cells, distance, pooled=pooled, rounds=rounds, noise=extra, delta=DELTA / 2)
        D = sums + rounds * problem.horizon * TIE  # of equally good actions it takes any
        above = self.p / 2 if noise > 0 else 0.0  # that mean rewards are above their width; p has the other side
        return PrimalRegretBound(D, regret=D, pays_resets=True, chance=DELTA + above)

    def _claim(self) -> tuple[bool, str]:
        """Optimism is proved with the proved width only, and for the paper's comparator, which has one episode."""
        if self.width != "theory":
            return super()._claim()
        if self.objective != "episode":
            return False, "its optimism is about the long run, and nothing is claimed about Regret"
        return True, "optimistic with probability 1 - p"
