"""Networks that take over from model-search where the data say so, and change the policy in small steps.

Legend: lam the price of a reset; P steps of a rollout; k episodes so far. `world_model` has the networks, the model
rollouts and the actor, `network_search` the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.compiled import on_one_thread
from resetfree.core.errors import NotCertifiable
from resetfree.core.settings import NonNegative, PositiveInt, Range
from resetfree.game.capabilities import Decision, Partner, Suited
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.players import make_player
from resetfree.players.model_based.machine_search import STEEPEST, TRUSTED, MachineSearchState, scaled_policy
from resetfree.players.neural import network_search as word
from resetfree.players.neural.network_search import NetworkSearchState, smooth_open_loop
from resetfree.players.neural.networks import MOST_PRICE, Discount, Rate, Size, leaves_of, narrow, start_vector
from resetfree.players.neural.skip_policy import SkipPolicy, first_actor, skip_policy
from resetfree.players.requirements import CHARGE, MACHINE, SENSORS, beyond_search, for_machines, networks_installed
from resetfree.problems.action_spaces import Box
from resetfree.problems.contract import Episode, Problem, State

HELD_OUT = 0.2  # part of the rows that the first networks are tested on
GOOD = 0.05  # of a deviation: errors below it count as equal, as a machine at rest is easily predicted
WORSE = 1.25  # how much worse than model-search's model networks may predict before they give back
MOST_MODEL_STEPS = 4000  # gradient steps of the ensemble at a time
BELIEVED = 50  # steps of the rollouts in which networks must predict few resets of a policy that has not fallen
FORESEEN = 4  # rollouts for the estimates of a plan
PARTS = (1.0, 0.5, 0.25)  # of the way to the new actor, tried from the farthest on
FITTING, ACTING, STARTING, IMPROVING, WEIGHING, VALUING = 11, 12, 13, 14, 15, 16  # purposes of random numbers


@dataclass(frozen=True)
class NeuralSearch(PrimalPlayer[NetworkSearchState]):
    """model-search, until networks know the machine better; then small steps from its policy, each on trial.

    Before the hand-over it is `model-search`. After `proof` steps without a reset, an ensemble of networks is trained.
    It takes over if it predicts held-out steps no worse than the model in play (10 steps open loop; errors below 5 % of
    a deviation count as equal), and gives back if it later does worse by a quarter. Each decision is recorded with its
    round.

    From then on, the policy is the tanh of model-search's linear policy plus a small network of (state, log(1 + lam)),
    which begins at 0. Once in `trial` steps, critics learn on model rollouts the reward of the policy in play and its
    probability of a reset (two of them, of which the worse counts), and the actor is trained on the gradient of reward
    - lam (worst member's resets), in model rollouts and, by the critics, beyond their end. The point farthest along
    that way is adopted which (i) has a larger value than the policy in play and (ii) has at most
    risk max(0, 1 - R / (budget sqrt(k)))  more predicted resets, R resets in k episodes; and none is while the networks
    predict resets of a policy that has not fallen. A new policy is proven after `trial` steps without a reset in which
    it earned no less than the proven one per step; otherwise, and after a fall, the proven one is back. If that falls
    within `proof` steps after a reset, model-search plays again.

    So by construction new policies fall at most budget sqrt(k) + 1 times in k episodes, however wrong the networks are.
    Nothing else is proved; sizes and rates were found by trying.

    planning, caution, population, rounds: of model-search.
    proof: steps without a reset after which networks may take over.
    trial: steps in which a new policy is tried.
    members: networks in the ensemble.
    hidden: units in each of their hidden layers.
    batch: transitions in each of their gradient steps.
    learning_rate: of the ensemble.
    model_steps: gradient steps of the ensemble for each step of the machine.
    actor_hidden: units in each hidden layer of the actor.
    actor_rate: learning rate of the actor.
    gradient_steps: of the actor, in a trial.
    critic_hidden: units in each hidden layer of the critics.
    critic_rate: learning rate of the critics.
    valuations: batches of rollouts that the critics learn from in a trial.
    rollout_length: P, the steps of a rollout.
    discount: of each step in rollouts and in the critics.
    n_rollouts: rollouts in a batch, each from its own start.
    distrust: the probability of a reset where the members disagree twice as much as usual, per further time.
    noise: deviation of actions on [-1, 1] while networks play, without which a machine at rest is predicted wrongly.
    risk: the largest increase of predicted resets by a new policy.
    budget: of the falls of new policies, at most budget sqrt(k) + 1 in k episodes.
    """

    name: ClassVar[str] = "neural-search"
    former_settings: ClassVar[Mapping[str, str]] = {
        "fits": "model_steps",
        "updates": "gradient_steps",
        "ahead": "rollout_length",
        "lives": "n_rollouts",
    }
    prediction: ClassVar[Prediction] = "high"
    vectors_only: ClassVar[bool] = True
    action_spaces: ClassVar[tuple[type, ...]] = (Box,)
    planning: PositiveInt = int(MACHINE["planning"])
    caution: NonNegative = float(MACHINE["caution"])
    population: Annotated[int, Range(4)] = int(MACHINE["population"])
    rounds: PositiveInt = int(MACHINE["rounds"])
    proof: PositiveInt = 1000
    trial: PositiveInt = 1000
    members: Annotated[int, Range(2, 100)] = 5
    hidden: Annotated[int, Range(1, 4096)] = 128
    batch: Size = 128
    learning_rate: Rate = 1e-3
    model_steps: Annotated[int, Range(1, 1000)] = 2
    actor_hidden: Annotated[int, Range(1, 4096)] = 32
    actor_rate: Rate = 1e-3
    gradient_steps: Annotated[int, Range(1, 10_000)] = 30
    critic_hidden: Annotated[int, Range(1, 4096)] = 64
    critic_rate: Rate = 3e-3
    valuations: Annotated[int, Range(1, 10_000)] = 50
    rollout_length: Annotated[int, Range(1, 10_000)] = 30
    discount: Discount = 0.99
    n_rollouts: Annotated[int, Range(1, 10_000)] = 16
    distrust: NonNegative = 0.3
    noise: Annotated[float, Range(0, 1)] = 0.05
    risk: Annotated[float, Range(0, 1)] = 0.1
    budget: NonNegative = 1.0

    @property
    def searcher(self) -> Any:
        """The player that begins, by its name: players import no other ones."""
        own = {name: getattr(self, name) for name in ("planning", "caution", "population", "rounds")}
        return make_player("primal", "model-search", {**MACHINE, **own, "units": False})

    def init(self, problem: Problem, episodes: int, seed: int) -> NetworkSearchState:
        """No data yet, and fresh networks; refuses what model-search refuses, and choices."""
        box = problem.actions
        if not isinstance(box, Box):
            raise NotCertifiable(
                f"The player '{self.name}' needs actions that are a Box. Got '{problem.name}' instead."
            )
        search = self.searcher.init(problem, episodes, seed)
        assert isinstance(search, MachineSearchState)
        size, rng = len(search.low), np.random.default_rng([seed, 1])
        learned, form = leaves_of(self.name, lambda: self._fresh(size, box.size, rng))
        return NetworkSearchState(search=search, learned=learned, form=form, seed=seed, box=box)

    def _fresh(self, size: int, n_actions: int, rng: np.random.Generator) -> Any:
        from resetfree.players.neural.world_model import fresh_critics, fresh_model

        actor = first_actor(np.zeros((n_actions, size + 1)), self.actor_hidden, rng)
        networks = {**fresh_model(size, n_actions, self.hidden, self.members, rng), "played": actor, "proven": actor}
        return networks | fresh_critics(size, self.critic_hidden, rng)

    def plan(self, state: NetworkSearchState, s1: State, lam: float) -> Plan:
        """The plan of model-search, or the policy of the actor in play, for any lam."""
        if not state.networks_play:
            begun: Plan = self.searcher.plan(state.search, s1, lam)
            return begun
        from resetfree.players.neural.world_model import foresee

        tree, lam, horizon = state.tree, min(check_multiplier(lam), MOST_PRICE), state.search.horizon
        model = tree["model"]
        starts = np.tile((start_vector(s1) - model.centre) / model.scale, (FORESEEN, 1))
        rollouts = foresee(self._rollout_batch(state, starts, lam, WEIGHING, discount=1.0), tree["played"], horizon)
        reward, reset = (float(np.mean(part)) for part in (rollouts.reward, rollouts.reset))
        policy = skip_policy(tree["played"], lam, state.scaling(), state.box, self.noise)
        return Plan(policy, min(max(reward, 0.0), float(horizon)), min(max(reset, 0.0), 1.0))

    @on_one_thread
    def update(self, state: NetworkSearchState, round: Round) -> NetworkSearchState:
        """Add the steps that were taken; return to what is proven after a fall, and decide when a trial is over."""
        search, k, is_other = state.search, round.k, state.decided_since(round.rests_on)
        if not state.networks_play:
            if isinstance(round.plan.policy, SkipPolicy):  # it was planned before the networks gave back
                search.rows.add(round.episode)
                search.pass_over(reset=round.episode.reset)
                return state
            self.searcher.update(search, round)
            if state.life() >= self.proof and search.rows.n - state.since >= self.trial and self._can_begin(state):
                self._consider(state, k)
            return state
        search.rows.add(round.episode)
        if round.episode.reset:
            self._return(state, k, on_trial=state.on_trial and not is_other)
        elif is_other:
            state.since = search.rows.n  # the policy that was decided on is yet to be played
        elif search.rows.n - state.since >= self.trial:
            self._end_trial(state, k)
            better = self._learn(state, k)
            state.since = search.rows.n
            if better is not None and better > WORSE:
                self._give_back(state, k, word.GIVE_BACK)
            else:
                self._seek(state, k, min(round.lam, MOST_PRICE))
        return state

    def absorb(self, state: NetworkSearchState, episode: Episode) -> NetworkSearchState:
        """Add the steps of an episode of data, as model-search does; networks learn from them when they begin."""
        self.searcher.absorb(state.search, episode)
        state.since = state.search.rows.n
        return state

    def adopt(self, state: NetworkSearchState, policy: Mapping[str, NDArray[Any]]) -> NetworkSearchState:
        """Let model-search begin with a policy."""
        self.searcher.adopt(state.search, policy)
        return state

    def _can_begin(self, state: NetworkSearchState) -> bool:
        """Whether model-search has a policy that can be searched around."""
        policy = state.search.policy
        return bool(policy.weight.any() and np.abs(scaled_policy(policy, state.scaling())).max() < STEEPEST)

    def _consider(self, state: NetworkSearchState, k: int) -> None:
        """Train networks, which take over if they predict held-out steps no worse than the model in play.

        They must also predict few resets of the policy in play with noise: some policies fall with it.
        """
        if not state.trained and (first := state.boundary(int((1.0 - HELD_OUT) * state.search.rows.n))):
            self._train(state, first, k)
        ratio = self._learn(state, k)
        state.since = state.search.rows.n
        if ratio is None or ratio > 1.0:
            return
        tree, policy = state.tree, state.search.policy
        actor = first_actor(scaled_policy(policy, state.scaling()), self.actor_hidden, state.random(ACTING))
        if not self._believed(state, actor, state.search.lam):
            return  # wrong about a policy that has not fallen, or right that it would fall with noise
        state.keep({**tree, "played": actor, "proven": actor}, 0, self.name)
        rows = state.search.rows
        state.networks_play, state.on_trial = True, False
        state.proven_reward = rows.mean_reward(max(0, rows.n - self.proof))
        state.decide(k, word.TAKE_OVER)

    def _give_back(self, state: NetworkSearchState, k: int, why: int) -> None:
        state.networks_play, state.on_trial = False, False
        state.since, state.search.stale = state.search.rows.n, True
        state.decide(k, why)

    def _return(self, state: NetworkSearchState, k: int, *, on_trial: bool) -> None:
        """The decision after a fall; on_trial: whether the policy that fell is not proven."""
        if on_trial:
            state.keep({**state.tree, "played": state.tree["proven"]}, 0, self.name)
            state.on_trial, state.since = False, state.search.rows.n
            state.decide(k, word.FELL_NEW)
        elif state.life(ended=1) < self.proof:
            self._give_back(state, k, word.FELL_AGAIN)
        else:
            state.since = state.search.rows.n

    def _end_trial(self, state: NetworkSearchState, k: int) -> None:
        """The decision after a trial without a fall."""
        tree, earned = state.tree, state.search.rows.mean_reward(state.since)
        if not state.on_trial:
            state.proven_reward = earned
        elif earned >= state.proven_reward:
            state.keep({**tree, "proven": tree["played"]}, 0, self.name)
            state.proven_reward = earned
            state.decide(k, word.PROVEN)
        else:
            state.keep({**tree, "played": tree["proven"]}, 0, self.name)
            state.decide(k, word.EARNED_LESS)
        state.on_trial = False

    def _learn(self, state: NetworkSearchState, k: int) -> float | None:
        """Test the networks on the rows since they last learned, then train on them.

        Returns their error as a multiple of that of the model in play, None if there was nothing to test.
        """
        from resetfree.players.neural.world_model import open_loop

        found, ratio = state.tests(state.trained) if state.trained else None, None
        if found is not None:
            (index, length), rows, model = found, state.search.rows, state.tree["model"]
            actions, begin, end = state.tested_actions(index, length), rows.state[index], rows.state[index + length]
            scaling, smooth = state.scaling(), state.search.model(state.trained, self.searcher)
            z = np.asarray(open_loop(model, narrow(scaling(begin)), narrow(actions)), dtype=np.float64)
            ratio = _error(z, scaling(end)) / _error(scaling(smooth_open_loop(smooth, begin, actions)), scaling(end))
        if state.search.rows.n > state.trained:
            self._train(state, state.search.rows.n, k)
        return ratio

    def _train(self, state: NetworkSearchState, n: int, k: int) -> None:
        """Train the ensemble on the first n rows, and refresh all other parts of the model."""
        from resetfree.players.neural.world_model import doubts, fit, refit_line

        tree = state.tree
        model = tree["model"] if state.trained else state.first_scales(n)
        seen = state.examples(n, model)
        model, tested = state.refreshed(n, model, seen, refit_line(seen.x[: seen.n], seen.y[: seen.n]))
        state.record_test(k, tested)
        count = min(MOST_MODEL_STEPS, self.model_steps * (n - state.trained))
        tree = fit(
            {**tree, "model": model},
            seen.x,
            seen.y,
            n=np.int32(seen.n),
            seed=state.word(FITTING),
            first=state.step(0),
            count=np.uint32(count),
            rate=np.float32(self.learning_rate),
            batch=self.batch,
        )
        usual = np.quantile(np.asarray(doubts(tree["model"], state.usual(seen))), word.USUAL)
        tree["model"] = tree["model"]._replace(doubt=narrow(max(float(usual), word.LEAST_DOUBT)))
        state.keep(tree, count, self.name, "'learning_rate'")
        state.trained = n

    def _seek(self, state: NetworkSearchState, k: int, lam: float) -> None:
        """Search for a better actor near the one in play, and adopt it if it passes the gate."""
        from resetfree.players.neural.world_model import between, compare, improve, learn_values

        bold = state.boldness(k, self.budget)
        if not bold:
            return
        tree, starts = state.tree, state.starts(self.n_rollouts, state.random(STARTING))
        played, rollouts_for = tree["played"], partial(self._rollout_batch, state, starts, lam)
        if not self._believed(state, played, lam):
            state.decide(k, word.DISTRUSTED)
            return
        critics = learn_values(
            rollouts_for(VALUING),
            {name: tree[name] for name in ("critics", "critic_steps")},
            played,
            count=np.int32(self.valuations),
            rate=np.float32(self.critic_rate),
            rollout_length=self.rollout_length,
        )
        valued = critics["critics"]
        new = improve(
            rollouts_for(IMPROVING),
            valued,
            played,
            count=np.int32(self.gradient_steps),
            rate=np.float32(self.actor_rate),
            rollout_length=self.rollout_length,
        )
        actors = [played, *(between(played, new, part) for part in PARTS)]
        values, resets = compare(rollouts_for(WEIGHING), valued, actors, self.rollout_length)
        chosen = gate(np.asarray(values), np.asarray(resets), self.risk * bold)
        state.keep(
            {**tree, **critics, "played": actors[chosen]}, self.gradient_steps, self.name, "'actor_rate', 'critic_rate'"
        )
        state.on_trial = chosen > 0
        state.decide(k, word.ADOPTED if chosen else word.REFUSED)

    def _believed(self, state: NetworkSearchState, actor: Any, lam: float) -> bool:
        """Whether the networks predict few resets of an actor that has not fallen."""
        from resetfree.players.neural.world_model import foresee

        starts = state.starts(self.n_rollouts, state.random(STARTING))
        rollouts = foresee(self._rollout_batch(state, starts, lam, WEIGHING, discount=1.0), actor, BELIEVED)
        return float(np.asarray(rollouts.reset).max(axis=0).mean()) <= TRUSTED

    def _rollout_batch(
        self, state: NetworkSearchState, starts: Any, lam: float, purpose: int, discount: float | None = None
    ) -> Any:
        """A batch of rollouts from these starts at one price, with the noise of a purpose; discount: the critics'."""
        from resetfree.players.neural.world_model import RolloutBatch, RolloutConfig

        seed = np.random.SeedSequence([state.seed, purpose, state.gradient_steps]).generate_state(1)[0]
        config = RolloutConfig(
            caution=np.float32(self.distrust),
            noise=np.float32(self.noise),
            discount=np.float32(self.discount if discount is None else discount),
            seed=np.uint32(seed),
        )
        return RolloutBatch(state.tree["model"], starts, narrow(np.full(len(starts), lam)), config)

    def decisions(self, state: NetworkSearchState) -> list[Decision]:
        """Who plays from when on, which policies were tried and why; how resets are predicted, and where they begin."""
        return [*state.record(), *state.search.boundary()]

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Machines with long states, where the extra is installed.

        Not shorter ones: there it earned no more than model-search on any task that was measured, however many steps,
        and may fall budget sqrt(k) + 1 times more. With long states every search in the fitted model takes long, which
        networks spare once they have taken over.
        """
        how = f"networks take over from model-search, whose plans take long beyond {SENSORS} numbers, when the machine "
        how += f"has lived {cls.proof:,} steps in a row and they predict it no worse (this is recorded, and their new "
        how += "policies fall at most sqrt(k) + 1 times in k episodes); until then a policy is searched for in a fit"
        able = isinstance(problem.actions, Box) and beyond_search(problem) and networks_installed()
        offer = for_machines(problem, 2.5, how) if able else None
        return None if offer is None else replace(offer, settings={})  # its own are those for machines

    @classmethod
    def partner(cls) -> Partner:
        """A constant penalty, as model-search has for machines."""
        return Partner("constant-penalty", "realised", {"C": CHARGE})

    def steps_ahead(self, horizon: int) -> int:
        """The steps that are planned ahead by model-search."""
        return self.planning

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Nothing is proved but how often new policies may fall."""
        constants: dict[str, Any] = {"proof": self.proof, "trial": self.trial, "risk": self.risk, "budget": self.budget}
        return Statement(constants, False, "no theorem covers policies that are found in networks")


def gate(values: NDArray[Any], resets: NDArray[Any], bound: float) -> int:
    """The index of the actor to play: the first of larger value than number 0, with at most `bound` more resets.

    Number 0 is the one in play.

    >>> gate(np.array([5.0, 9.0, 7.0]), np.array([0.1, 0.4, 0.15]), 0.1)
    2
    >>> gate(np.array([5.0, 9.0]), np.array([0.1, 0.4]), 0.1)
    0
    """
    passed = np.flatnonzero((values[1:] > values[0]) & (resets[1:] <= resets[0] + bound))
    return int(passed[0]) + 1 if len(passed) else 0


def _error(z: Floats, true: Floats) -> float:
    """The mean distance on the scale of z, at least GOOD."""
    return max(GOOD, float(np.abs(np.clip(z, -word.FAR, word.FAR) - true).mean()))
