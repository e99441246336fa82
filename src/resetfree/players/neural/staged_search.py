"""Two searches in one run: `model-search` first, and networks for a trial where the reward has stopped rising.

Legend: n steps so far; lam the price of a reset. Both learn from all steps, whoever acts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.settings import PositiveInt, Range
from resetfree.core.state import require, within
from resetfree.game.capabilities import Decision, Partner, Suited
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement
from resetfree.game.replay_buffer import ReplayBuffer
from resetfree.players.model_based import ModelSearch
from resetfree.players.model_based.exploring import BLOCKS, block_means, stalled
from resetfree.players.model_based.machine_search import MachineSearchState
from resetfree.players.neural.actor_critic import SkipPolicy
from resetfree.players.neural.networks import MOST_PRICE, narrow
from resetfree.players.neural.neural_search import NetworkSearchState, NeuralSearch
from resetfree.players.neural.planning import NoisePolicy, PlannedPolicy
from resetfree.players.requirements import CHARGE, FITTED, LIFE, MACHINE, for_long_states
from resetfree.problems.action_spaces import Box
from resetfree.problems.contract import Episode, Problem, State
from resetfree.problems.formula import TanhPolicy

LATELY = 1000  # steps whose mean reward is compared
FLAT = 1000  # steps without a rise of the reward before networks are tried
COMPARED = 500  # steps of a trial before it may end early for its reward
RANGE, LEAST_UNIT = (0.05, 0.95), 1e-6  # quantiles of rewards before a trial, whose distance is their range
POOR = 0.2  # of that range: a trial that earns less by so much ends early
GAIN, PRICE = 0.05, 0.01  # of that range: what networks must earn more, in the end, and for each reset of late
NEAR = 0.1  # part of the range of all rewards: who earns so nearly what the best step earned has no use for networks
FALLS = 6  # resets of late in a trial that earns no more, until it ends early
LATER = 4  # factor of the steps after which networks are tried again
STEEPEST = 1e3  # weights of a policy that networks do not begin with: its actions are the ends of the box
BEGAN, KEPT, POORER, FELL = range(4)
WORDS = (
    "networks are tried: the reward has not risen for 1,000 steps",
    "networks act from here on: they earn more",
    "the search in the fitted model acts again: networks earn less",
    "the search in the fitted model acts again: networks were reset and earn no more",
)


@dataclass
class StagedState:
    """The states of both searches, and who acts."""

    model: MachineSearchState
    networks: NetworkSearchState
    trying: bool = False  # whether networks act
    kept: bool = False  # whether they have earned more
    began: int = 0  # rows when they began
    rate: float = field(default=0.0, metadata={"least": None})  # reward per step before
    after: int = 0  # rows from which on they may be tried
    # [m, 2] round and index in WORDS of each decision
    changes: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64), metadata={"grows": (0,)})

    def check_loaded(self) -> None:
        """Raise InvalidInput unless decisions and rewards can be those of a run."""
        require(within(self.changes[:, 1], 0, len(WORDS)), "decisions must be known ones")
        require(np.isfinite(self.rate) and self.began <= self.rows.n, "trial must have begun in the run")

    @property
    def rows(self) -> ReplayBuffer:
        """All transitions."""
        return self.networks.rows

    def decide(self, k: int, what: int) -> None:
        """Record a decision of round k."""
        self.changes = np.concatenate([self.changes, np.array([[k, what]], np.int64)])


@dataclass(frozen=True)
class StagedSearch(PrimalPlayer[StagedState]):
    """`model-search` while data are few, and networks where they earn more.

    A Gaussian process predicts smooth machines from a few hundred steps, and its search is quick; contacts need
    networks, which must see thousands. So the search in the fitted model acts first. Where the reward has not risen
    for 1,000 steps, `neural-search` acts for a trial, unless nothing falls and as much is earned as in the best step
    that was seen. It has learned from all steps, and begins with the policy that was found. It goes on as long as it
    earns more than was earned before. A trial ends early if it earns much less, or is reset often without earning
    more; the next comes after four times as many steps.

    Nothing is proved; the numbers were found by trying (docs/machines.md).

    first: steps before networks are tried.
    trial: steps of a trial.
    planning, population: settings of `model-search`.
    hidden, actor_hidden, n_rollouts, samples: settings of `neural-search`.

    >>> StagedSearch.partner().dual
    'constant-penalty'
    """

    name: ClassVar[str] = "staged-search"
    suited_states = ("vectors",)
    vectors_only: ClassVar[bool] = True
    action_spaces: ClassVar[tuple[type, ...]] = (Box,)
    prediction: ClassVar[Prediction] = "high"
    first: PositiveInt = 1000
    trial: PositiveInt = 3000
    planning: PositiveInt = LIFE
    population: Annotated[int, Range(4)] = 24
    hidden: Annotated[int, Range(1, 4096)] = 128
    actor_hidden: Annotated[int, Range(1, 4096)] = 128
    n_rollouts: Annotated[int, Range(1, 10_000)] = 64
    samples: Annotated[int, Range(8, 100_000)] = 64

    @property
    def few(self) -> ModelSearch:
        """The search that acts first."""
        settings: dict[str, Any] = {**MACHINE, "planning": self.planning, "population": self.population}
        return ModelSearch(**settings)

    @property
    def many(self) -> NeuralSearch:
        """The search with networks."""
        return NeuralSearch(
            hidden=self.hidden, actor_hidden=self.actor_hidden, n_rollouts=self.n_rollouts, samples=self.samples
        )

    def init(self, problem: Problem, episodes: int, seed: int) -> StagedState:
        """No data yet, for either; raises as both do."""
        networks = self.many.init(problem, episodes, seed)
        model: Any = self.few.init(problem, episodes, seed)
        return StagedState(model, networks, after=self.first)

    def plan(self, state: StagedState, s1: State, lam: float) -> Plan:
        """That of the search which acts."""
        return self.many.plan(state.networks, s1, lam) if state.trying else self.few.plan(state.model, s1, lam)

    def greedy(self, state: StagedState, lam: float) -> TanhPolicy | SkipPolicy:
        """The policy for use: networks' where they have earned more."""
        if state.kept:
            return self.many.greedy(state.networks, lam)
        policy: TanhPolicy | SkipPolicy = state.model.policy  # type: ignore[assignment]
        return policy

    def update(self, state: StagedState, round: Round) -> StagedState:
        """Learn from the episode, and decide who acts next."""
        if isinstance(round.plan.policy, PlannedPolicy | NoisePolicy):
            state.networks = self.many.update(state.networks, round)
            state.model.rows.add(round.episode)
            state.model.pass_over(reset=False)
        else:
            model: Any = self.few.update(state.model, round)
            state.model = model
            state.networks.rows.add(round.episode)
        if state.trying:
            self._weigh(state, round.k)
        elif self._is_due(state):
            self._try(state, round)
        return state

    def absorb(self, state: StagedState, episode: Episode) -> StagedState:
        """Add the steps of an episode of data, to both."""
        self.few.absorb(state.model, episode)
        self.many.absorb(state.networks, episode)
        state.after = state.rows.n + self.first
        return state

    def act_beside(self, state: StagedState) -> StagedState:
        """As `model-search` does."""
        self.few.act_beside(state.model)
        return state

    def gain(self, state: StagedState) -> float:
        """That of the policy planned last; unknown of networks."""
        return 0.0 if state.trying else self.few.gain(state.model)

    def follow(self, state: StagedState, episode: Episode) -> StagedState:
        """As `absorb`, of behaviour that is to be improved on."""
        self.few.follow(state.model, episode)
        self.many.absorb(state.networks, episode)
        return state

    def adopt(self, state: StagedState, policy: Mapping[str, NDArray[Any]]) -> StagedState:
        """Play a policy first, as `model-search` does."""
        self.few.adopt(state.model, policy)
        return state

    def _is_due(self, state: StagedState) -> bool:
        """Whether the reward has not risen for long, and more may be earned: what never falls has seen better steps."""
        rows, n = state.rows, state.rows.n
        if n < state.after:
            return False
        earned = rows.reward[:n][rows.taken(n)]
        best = float(earned.max(initial=0.0))
        fell = bool(rows.terminated[:n].any())  # who is careful sees no better steps
        bar = best - NEAR * (best - float(earned.min(initial=best)))
        content = not fell and block_means(earned)[-BLOCKS:].max(initial=-np.inf) >= bar
        return not content and stalled(earned)[0] >= FLAT

    def _try(self, state: StagedState, round: Round) -> None:
        """Let networks act, after they have learned from all steps, from the policy that was found."""
        state.trying, state.kept, state.began = True, False, state.rows.n
        state.rate = state.rows.mean_reward(state.rows.n - LATELY)
        state.decide(round.k, BEGAN)
        if not state.networks.trained:
            state.networks.late = state.rows.n
            begin_with(state.networks, state.model.policy, self.many.name)
        self.many.learn_all(state.networks, round.k, min(round.lam, MOST_PRICE))

    def _weigh(self, state: StagedState, k: int) -> None:
        """End a trial that earns no more, or keep networks that do."""
        rows, n, played = state.rows, state.rows.n, state.rows.n - state.began
        low, high = np.quantile(rows.reward[: state.began][rows.taken(state.began)], RANGE)
        span = max(float(high - low), LEAST_UNIT)
        lately = rows.mean_reward(max(state.began, n - LATELY))
        falls = int(rows.terminated[max(state.began, n - LATELY) : n].sum())
        more = lately > state.rate + (GAIN + PRICE * falls) * span
        is_over = played >= self.trial
        if falls > FALLS and not more:
            self._give_back(state, k, FELL)
        elif played < COMPARED:
            return
        elif lately < state.rate - POOR * span or (is_over and not more):
            self._give_back(state, k, POORER)
        elif is_over and not state.kept:
            state.kept = True
            state.decide(k, KEPT)

    def _give_back(self, state: StagedState, k: int, why: int) -> None:
        state.trying = state.kept = False
        state.after = LATER * state.rows.n
        state.model.stale = True
        state.decide(k, why)

    def decisions(self, state: StagedState) -> list[Decision]:
        """Who acted from when on, and what both have decided themselves."""
        own = [Decision(int(k), WORDS[what]) for k, what in state.changes]
        both = [*own, *self.few.decisions(state.model), *self.many.decisions(state.networks)]
        return sorted(both, key=lambda one: one.k)

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Machines with more than a few numbers in a state, where the extra is installed."""
        how = "the dynamics are fitted to all steps and a policy is searched for in the fit, with a reset charged "
        how += f"{CHARGE:g}; where the reward stops rising, networks are tried, and act if they earn more"
        is_longer = problem.low is not None and len(problem.low) > FITTED
        return None if is_longer else for_long_states(problem, 2.5, how)

    @classmethod
    def partner(cls) -> Partner:
        """A constant penalty, as both have."""
        return Partner("constant-penalty", "realised", {"C": CHARGE})

    def steps_ahead(self, horizon: int) -> int:
        """The steps of a rollout in the fitted model."""
        return self.few.planning

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Nothing is proved."""
        constants: dict[str, Any] = {"first": self.first, "trial": self.trial}
        return Statement(constants, False, "no theorem covers policies that are found by search in a fitted model")


def begin_with(networks: NetworkSearchState, policy: Any, name: str) -> None:
    """Let an untrained actor begin as the linear part of a policy, as far as that can be improved on."""
    tree = networks.tree
    weight, _ = tree["actor"]["skip"]
    own: tuple[Floats, Floats] = policy.weight, policy.bias
    if own[0].T.shape == weight.shape and max(np.abs(part).max(initial=0.0) for part in own) < STEEPEST:
        skip = narrow(own[0].T), narrow(own[1])
        networks.keep({**tree, "actor": {**tree["actor"], "skip": skip}}, 0, name)
