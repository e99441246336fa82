"""Networks for machines: a model, an actor trained in it by backpropagation, and planning on top of its feedback.

Legend: lam the price of a reset; n rows so far, the first of the replay buffer; k episodes; z = (s - centre) / scale.
`world_model` has the ensemble, `actor_critic` what learns in it, `planning` the search at each step, `schedule` how
boldly all this is used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import NotCertifiable
from resetfree.core.settings import NonNegative, Range
from resetfree.core.state import require, within
from resetfree.game.capabilities import Decision, Partner, Suited
from resetfree.game.contract import Plan, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.game.replay_buffer import ReplayBuffer, check_pooling, empty_buffer
from resetfree.players.neural.actor_critic import PlanSizes, SkipPolicy, Work, fresh_learner, learn, skip_policy
from resetfree.players.neural.experience import ScaledRows, bounded, found_scales, is_refit
from resetfree.players.neural.networks import MOST_PRICE, NeuralState, Size, leaves_of
from resetfree.players.neural.planning import NoisePolicy, PlannedPolicy
from resetfree.players.neural.schedule import (
    ROUNDS,
    TIMID,
    LearningProgress,
    Schedule,
    aimed,
    first_noise,
    gradient_steps,
    progressed,
    smooth_noise,
)
from resetfree.players.neural.world_model import rescaled
from resetfree.players.requirements import CHARGE, FITTED, for_long_states
from resetfree.problems.action_spaces import Box
from resetfree.problems.contract import Episode, Problem, State
from resetfree.problems.features.scaling import Scaling

FREE, CAREFUL, BOLDER = range(3)
WORDS = (
    "nothing has been reset so far: it explores freely, and seeks what the networks disagree about",
    "after the first reset it is careful: disagreement is avoided, and rewards count little at first",
    "exploring: reward has not risen for 1,000 steps without a reset, so rewards count more from here on",
)


@dataclass(kw_only=True)
class NetworkSearchState(NeuralState):
    """All transitions, the networks that learn from them, and how boldly they act.

    The tree holds the ensemble, the actor and the critics, on the scale of z.
    """

    rows: ReplayBuffer
    progress: LearningProgress
    trained: int = 0  # rows that the networks have learned from
    late: int = field(default=0, metadata={"later": True})  # rows that there were when they began, from other learners
    # [m, 2] round and index in WORDS of each decision
    decisions: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64), metadata={"grows": (0,)})
    stored: ScaledRows = field(default_factory=ScaledRows, metadata={"saved": False})

    def check_loaded(self) -> None:
        """Raise InvalidInput unless counters and decisions can be those of a run."""
        require(self.trained <= self.rows.n, "networks must rest on rows that were seen")
        require(within(self.decisions[:, 1], 0, len(WORDS)), "decisions must be known ones")
        require(self.progress.first_fall <= self.rows.n, "the first reset must have been seen")
        require(self.progress.unit >= 0.0 and self.progress.boldness > 0.0, "progress must have units")

    @property
    def fell(self) -> bool:
        """Whether any state was a reset state."""
        return bool(self.rows.terminated[: self.rows.n].any())

    def scaling(self) -> Scaling:
        """The scales of states."""
        scales = self.tree["scales"]
        return Scaling(np.asarray(scales.centre, np.float64), np.asarray(scales.scale, np.float64))

    def decide(self, k: int, word: int) -> None:
        """Record a decision of round k."""
        self.decisions = np.concatenate([self.decisions, [[k, word]]])

    def record(self) -> list[Decision]:
        """All decisions, in the order of rounds."""
        return [Decision(int(k), WORDS[what]) for k, what in self.decisions]


MANY = 40_000  # weights of a member from which on less is computed at each step, lest the machine wait
LEAST_WORK = 0.1  # of the usual
LEARNING, NOISE, PLANNING = 11, 12, 13  # purposes of random numbers


@dataclass(frozen=True)
class NeuralSearch(PrimalPlayer[NetworkSearchState]):
    """Planning in an ensemble of networks, with a price on resets; free exploration while there are none.

    The first 200 steps are smooth noise around the middle of the box, which grows while nothing falls. Then an ensemble
    learns mean and variance of the motion and of the reward. Resets are predicted by thresholds of single sensors that
    no survivor has passed. An actor is trained by backpropagation through rollouts of all members, with critics at
    their end, for the utility of rewards less lam / 2 times the discounted resets. At each step, the cross-entropy
    method looks for offsets to the actor's feedback.

    While nothing has ever been reset, the mean over members plus half their deviation counts: disagreement is sought.
    From the first reset on, their deviation is subtracted, the weight of rewards grows from 0 within 3,000 steps,
    rewards beyond a cap count less, and a machine that stands and earns no more is made bolder (see `schedule`).

    Nothing is proved; sizes and rates were found by trying (docs/machines.md).

    members: networks in the ensemble.
    hidden: units in each of their hidden layers.
    batch: transitions of a member in a gradient step.
    model_steps: gradient steps of the ensemble for each step of the machine, four times as many in the first 2,000.
    actor_hidden: units in each hidden layer of the actor and of the critics.
    gradient_steps: of the actor, for each step of the machine, four times as many in the first 2,000.
    n_rollouts: model rollouts in each of them, for every member.
    rollout_length: steps of a rollout, and of a plan.
    samples: plans that are compared in a round.
    rounds: of them at each step.

    >>> NeuralSearch.partner().dual
    'constant-penalty'
    """

    name: ClassVar[str] = "neural-search"
    suited_states = ("vectors",)
    former_settings: ClassVar[Mapping[str, str]] = {
        "fits": "model_steps",
        "updates": "gradient_steps",
        "ahead": "rollout_length",
        "lives": "n_rollouts",
    }
    vectors_only: ClassVar[bool] = True
    action_spaces: ClassVar[tuple[type, ...]] = (Box,)
    schedule: ClassVar[Schedule] = Schedule()
    members: Annotated[int, Range(2, 100)] = 5
    hidden: Annotated[int, Range(1, 4096)] = 128
    batch: Size = 256
    model_steps: NonNegative = 0.6
    actor_hidden: Annotated[int, Range(1, 4096)] = 128
    gradient_steps: NonNegative = 0.25
    n_rollouts: Annotated[int, Range(1, 10_000)] = 64
    rollout_length: Annotated[int, Range(1, 1000)] = 16
    samples: Annotated[int, Range(8, 100_000)] = 64
    rounds: Annotated[int, Range(1, 100)] = 2

    def init(self, problem: Problem, episodes: int, seed: int) -> NetworkSearchState:
        """No data yet, and fresh networks; refuses states that are no vectors, and actions that are no box."""
        box = problem.actions
        if problem.low is None or problem.n_states is not None or not isinstance(box, Box):
            raise NotCertifiable(
                f"The player '{self.name}' needs states that are vectors and actions that are a Box. "
                f"Got '{problem.name}' instead."
            )
        check_pooling(problem, self.name)
        size, rng = len(problem.low), np.random.default_rng([seed, 1])

        def fresh() -> Any:
            theta = np.zeros((box.size, size + 1))
            return fresh_learner(theta, self.hidden, self.members, self.actor_hidden, rng)

        learned, form = leaves_of(self.name, fresh)
        return NetworkSearchState(
            rows=empty_buffer(problem),
            progress=LearningProgress(),
            learned=learned,
            form=form,
            horizon=problem.horizon,
            seed=seed,
            box=box,
        )

    def plan(self, state: NetworkSearchState, s1: State, lam: float) -> Plan:
        """Noise at first, then a plan at each step."""
        lam, tree = min(check_multiplier(lam), MOST_PRICE), state.tree
        value = float(np.clip(state.rows.mean_reward(max(0, state.rows.n - 1000)), 0.0, 1.0)) * state.horizon
        low, high = state.box.ends
        noise = smooth_noise([state.seed, NOISE, state.rows.n], (state.horizon, state.box.size))
        policy: Any
        if not state.trained:
            deviation = first_noise(self.schedule, state.fell, state.rows.n, state.horizon)
            policy = NoisePolicy(np.clip(deviation[:, None] * noise, -1.0, 1.0), low, high)
        else:
            aim = aimed(state.progress, state.rows, lam, self.schedule)
            policy = PlannedPolicy(
                networks={name: tree[name] for name in ("model", "actor", "critics")},
                scales=tree["scales"]._asdict(),
                aim=aim._asdict(),
                sizes=tuple(self._sizes(state)),
                noise=self.schedule.played_noise(state.progress) * noise,
                low=low,
                high=high,
                seed=int(np.random.SeedSequence([state.seed, PLANNING, state.rows.n]).generate_state(1)[0]),
            )
        return Plan(policy, value, state.falls())

    def greedy(self, state: NetworkSearchState, lam: float) -> SkipPolicy:
        """The policy for use: feedback without planning and noise."""
        check_multiplier(lam)
        return skip_policy(state.tree["actor"], state.scaling(), state.box)

    def update(self, state: NetworkSearchState, round: Round) -> NetworkSearchState:
        """Keep the episode, and learn from all of them."""
        state.rows.add(round.episode)
        if state.rows.n >= self.schedule.begin:
            self.learn_all(state, round.k, min(round.lam, MOST_PRICE))
        return state

    def absorb(self, state: NetworkSearchState, episode: Episode) -> NetworkSearchState:
        """Add the steps of an episode of data; networks learn from them after the first round."""
        state.rows.add(episode)
        return state

    def learn_all(self, state: NetworkSearchState, k: int, lam: float) -> None:
        """Train the ensemble on the rows so far, and the actor and its critics in it.  k: the round."""
        rows, n, tree, before, was = state.rows, state.rows.n, state.tree, state.trained, state.progress
        refit = is_refit(before, n)
        scales = bounded(rows, n, found_scales(rows, n, tree["scales"]) if refit else tree["scales"])
        tree = rescaled(tree, scales) if refit else {**tree, "scales": scales}
        state.progress = now = progressed(was, rows, before, self.schedule, refit=refit)
        if not before and not now.first_fall:
            state.decide(k, FREE)
        if now.first_fall and not was.first_fall:
            state.decide(k, CAREFUL)
        if was.boldness == TIMID < now.boldness and now.first_fall:
            state.decide(k, BOLDER)
        state.stored.add(rows, n, scales, state.box)
        part = self._part(state)
        counts = [
            gradient_steps(rate * part, before, n, state.late) for rate in (self.model_steps, self.gradient_steps)
        ]
        aim, stored, seed = aimed(now, rows, lam, self.schedule), state.stored, state.word(LEARNING)
        rounds = 1 if before else ROUNDS
        for i in range(rounds):
            work = Work(seed, state.step(i * max(counts)), *(np.int32(count) for count in counts))
            tree = learn(tree, stored.rows, np.int32(stored.n), aim, work, sizes=self._sizes(state))
        state.keep(tree, rounds * max(counts), self.name, "price of a reset")
        state.trained = n

    def _part(self, state: NetworkSearchState) -> float:
        """How much of the usual is computed at each step: less for large machines, lest they wait."""
        size, n_actions, h = state.rows.state.shape[1], state.box.size, self.hidden
        weights = (size + n_actions) * h + 2 * h * h + h * (2 * size + 3)
        return float(np.clip(MANY / weights, LEAST_WORK, 1.0))

    def _sizes(self, state: NetworkSearchState) -> PlanSizes:
        part = self._part(state)
        members = min(self.members, 3)
        samples, starts = max(8, round(part * self.samples)), max(1, round(part * self.n_rollouts))
        return PlanSizes(self.batch, starts, self.rollout_length, members, samples=samples, rounds=self.rounds)

    def decisions(self, state: NetworkSearchState) -> list[Decision]:
        """How it learned from when on."""
        return state.record()

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Machines with more than a few numbers in a state, where the extra is installed."""
        how = (
            f"networks learn the motion and plan, freely while nothing is reset, then with a reset charged {CHARGE:g}; "
        )
        how += "model-search is the careful choice, which falls less often and earns less"
        is_longer = problem.low is not None and len(problem.low) > FITTED
        return for_long_states(problem, 2.5 if is_longer else 1.5, how)

    @classmethod
    def partner(cls) -> Partner:
        """A constant penalty, as model-search has for machines."""
        return Partner("constant-penalty", "realised", {"C": CHARGE})

    def steps_ahead(self, horizon: int) -> int:
        """The steps of a plan; critics say what comes after."""
        return self.rollout_length

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Nothing is proved."""
        constants: dict[str, Any] = {"members": self.members, "rollout_length": self.rollout_length}
        return Statement(constants, False, "no theorem covers policies that are found in networks")
