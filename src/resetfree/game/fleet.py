"""The game of a fleet: machines of one kind act at the same time, and one learner learns from all of them.

Rounds are numbered in the order in which their episodes were over. While an episode is under way others end, so that
its plan rests on an older round: this is the game with delay (`game.delayed`), where each plan is made for the very
start that it is played from. Time is counted in steps of a machine: episodes take as many steps as they have, a reset
takes `reset_time`, and a machine that needs one waits until an operator is free.

Trials: an episode is a trial if its plan can take a pair (s, a) that was never tried, as far as the transitions say
that were seen; where states are not counted, every episode is one. What falls in one trial cannot be known in those
that are under way. So a machine stands until its trial shares no such pair with one that is under way, and until fewer
falls are expected of all of them than `risk`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from resetfree.core import Floats, InvalidInput
from resetfree.core.plain_tree import decode, encode
from resetfree.game.capabilities import MapsDanger
from resetfree.game.contract import DualPlayer, Plan, PrimalPlayer, Round
from resetfree.game.delayed import HeldPlan
from resetfree.game.loop import Direct, Game, learn_round, make_plan
from resetfree.problems import Episode, Intervention, Problem, State
from resetfree.problems.stepping import playable

MEMORY = 0.9  # what a machine earns is averaged over about 1 / (1 - MEMORY) of its episodes
ANYTHING = (-1, -1, -1)  # the pair of every trial where states are not counted
Pair = tuple[int, int, int]  # layer of the step (0 if steps are alike), state, action


@dataclass(slots=True)
class Machine:
    """A machine between two episodes, or in one."""

    start: State = None  # where it stands; None: it must be reset first
    why: str = "start"  # the reason for that reset
    waits: bool = False  # for an operator
    ready: float = 0.0  # since when it waits, or from when on it can begin
    waited: float = 0.0  # for an operator, before its next episode
    operator: int = 0  # who reset it before its next episode, counted from 1; 0: it was not reset
    begun: int = 0  # episodes
    resets: int = 0
    pay: float = 0.0  # reward per step, of late


class UnderWay(NamedTuple):
    """An episode under way."""

    number: int  # in the order in which episodes began, from 1
    start: State
    began: float
    waited: float
    operator: int
    held: HeldPlan
    tries: frozenset[Pair]


class Crew(ABC):
    """Where the machines are: each is given an episode or a reset, whose result is taken afterwards."""

    broken: Collection[int] = ()  # machines that are left out from now on

    @abstractmethod
    def begin(self, machine: int, one: UnderWay, u: Floats) -> None:
        """Have a machine begin an episode; `u` is all its chance."""

    @abstractmethod
    def episode(self, machine: int) -> Episode | None:
        """Wait for the episode of a machine; None if the machine was lost, with whatever it was doing."""

    @abstractmethod
    def reset(self, machine: int, u: float, why: str) -> State:
        """Reset a machine that keeps its own state; where it stands then."""

    def interventions(self) -> list[Intervention]:
        """The resets that were performed since the last call."""
        return []

    def close(self) -> None:  # noqa: B027 (optional)
        """End what was started."""


class HereCrew(Crew):
    """All machines in this process, one after the other.  problems: one for each, or one that keeps no state."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._given: dict[int, tuple[UnderWay, Floats]] = {}

    def _problem(self, machine: int) -> Problem:
        return self._problems[(machine - 1) % len(self._problems)]

    def begin(self, machine: int, one: UnderWay, u: Floats) -> None:
        """See `Crew`."""
        self._given[machine] = one, u

    def episode(self, machine: int) -> Episode | None:
        """See `Crew`."""
        one, u = self._given.pop(machine)
        return self._problem(machine).rollout(one.held.plan.policy, one.start, u)

    def reset(self, machine: int, u: float, why: str) -> State:
        """See `Crew`."""
        return self._problem(machine).perform_reset(u, why)


@dataclass(slots=True)
class FleetGame(Game):
    """The state of a fleet between two rounds."""

    seed: int = 0
    machines: list[Machine] = field(default_factory=list)
    free: list[float] = field(default_factory=list)  # from when on each operator is free
    busy: list[float] = field(default_factory=list)  # how long each has worked
    now: float = 0.0
    begun: int = 0  # episodes
    trials: list[bool] = field(default_factory=list)  # whether each trial ended in a reset
    under_way: dict[int, UnderWay] = field(default_factory=dict)  # by machine
    last: tuple[int, UnderWay] | None = None  # the machine of the newest round, and its episode

    @classmethod
    def of(cls, game: Game, problem: Problem, seed: int, machines: int, operators: int) -> FleetGame:
        """A fresh game of so many machines."""
        standing = [Machine(start=_first(problem, seed, i + 1)) for i in range(machines)]
        none = [0.0] * operators
        made = cls(0, standing[0].start, game.primal, game.dual, game.rng, pauses=game.pauses, seed=seed)
        made.machines, made.free, made.busy = standing, none, list(none)
        return made

    def chance(self, machine: int, *what: int) -> np.random.Generator:
        """The random numbers of a machine's next episode, or (1) of the reset before it."""
        return np.random.default_rng([self.seed, machine, self.machines[machine - 1].begun, *what])

    def timing(self) -> tuple[int, int, int, float, int, int, float, float, float, int]:
        """What the record says of the newest round: `recorded.TIMING` and `recorded.FLEET`."""
        assert self.last is not None
        machine, one = self.last
        plan = (one.held.based_on, one.held.digest, 0, float("nan"))
        return *plan, machine, one.number, one.began, self.now, one.waited, one.operator

    def saved(self) -> bytes:
        """All of it that a checkpoint must hold besides the players."""
        machines = [[getattr(one, name) for name in Machine.__slots__] for one in self.machines]
        acting = [
            [i, *one[:5], np.frombuffer(one.held.data, dtype=np.uint8), [list(pair) for pair in one.tries]]
            for i, one in self.under_way.items()
        ]
        rest = {name: getattr(self, name) for name in ("free", "busy", "now", "begun")}
        return encode({**rest, "trials": np.array(self.trials, dtype=np.int64), "machines": machines, "acting": acting})

    def restore(self, data: bytes) -> None:
        """Put back the result of `saved`; raises InvalidInput for any other."""
        tree = decode(data, {})
        try:
            machines = [Machine(*values) for values in tree["machines"]]
            acting = {
                int(i): UnderWay(
                    number,
                    start,
                    began,
                    waited,
                    operator=operator,
                    held=HeldPlan.read(held.tobytes()),
                    tries=frozenset((h, s, x) for h, s, x in tries),
                )
                for i, number, start, began, waited, operator, held, tries in tree["acting"]
            }
            for name in ("free", "busy", "now", "begun"):
                setattr(self, name, tree[name])
            self.trials = tree["trials"].astype(bool).tolist()
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise InvalidInput(f"The checkpoint of a fleet must hold its machines: {error}.") from error
        if len(machines) != len(self.machines) or not all(1 <= i <= len(machines) for i in acting):
            raise InvalidInput("The checkpoint of a fleet must hold each of its machines.")
        self.machines, self.under_way = machines, acting

    def lose(self, machine: int) -> None:
        """A machine whose state is unknown, with its episode: it must be reset, unless it is broken."""
        self.under_way.pop(machine, None)
        one = self.machines[machine - 1]
        one.start, one.why, one.waits, one.ready = None, "resume" if one.begun else "start", one.begun > 0, self.now


def _first(problem: Problem, seed: int, machine: int) -> State:
    """Where a machine starts; None if it must be reset first."""
    return None if problem.persistent else problem.first_start(np.random.default_rng([seed, machine, 0, 1]).random())


class Fleet(Direct):
    """The schedule of a fleet: each round is the episode that is over next.

    reset_time: steps that a reset takes.  risk: falls that may be expected of all trials that are under way.
    episodes: how many may begin in all.
    """

    def __init__(
        self, problem: Problem, crew: Crew, *, episodes: int, reset_time: float = 0.0, risk: float = 1.0
    ) -> None:
        self._problem, self.crew, self._episodes = problem, crew, episodes
        self._reset_time, self._risk = reset_time, risk
        self._counted = problem.n_states is not None
        self._layered = self._counted and not problem.stationary
        self._after: dict[Pair, set[int]] = defaultdict(set)  # where pairs led
        self._known = -1  # the round up to which they are known
        self._results: dict[int, Episode] = {}  # by machine, of episodes that are over later
        self._plans: dict[Any, tuple[HeldPlan, frozenset[Pair]]] = {}  # of the present states, by start

    def close(self) -> None:
        """End what its machines need."""
        self.crew.close()

    def learned(self, episode: Episode) -> None:
        """Take note of where pairs led."""
        if not self._counted:
            return
        states, actions = episode.states.tolist(), episode.actions.tolist()
        for h in range(min(len(actions), len(states) - 1)):
            self._after[(h if self._layered else 0, states[h], actions[h])].add(states[h + 1])

    def before(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game) -> None:
        """Have machines reset and begin, until an episode is over."""
        assert isinstance(game, FleetGame)
        self._plans.clear()
        for machine, one in game.under_way.items():  # of a checkpoint
            if machine not in self._results:
                self.crew.begin(machine, one, self._chance(game, machine, again=True))
                self._take(game, machine)
        while not self._over(game):
            self._help(game)
            self._begin(primal, dual, game)
            ends = [one.began + len(self._results[i].actions) for i, one in game.under_way.items()]
            resets = [one.ready for one in game.machines if one.start is not None and one.ready > game.now]
            waits = [end for end in game.free if end > game.now] if any(m.waits for m in game.machines) else []
            game.now = max(min([*ends, *resets, *waits], default=game.now), game.now)  # none: all were lost just now

    def _over(self, game: FleetGame) -> bool:
        """Take the next episode that is over by now, in the order in which they began; whether there is one."""
        acting = game.under_way.items()
        over = [(one.number, i) for i, one in acting if one.began + len(self._results[i].actions) <= game.now]
        if over:
            machine = min(over)[1]
            game.last = machine, game.under_way.pop(machine)
            game.s1 = game.last[1].start
        return bool(over)

    def _help(self, game: FleetGame) -> None:
        """Operators that are free begin with the machine that would earn the most; of equals, that has waited most."""
        for i, one in enumerate(game.machines, 1):
            if one.start is None and not one.waits and i not in game.under_way:  # before the first episode
                one.start = self._put_back(game, i)
        waiting = [(-one.pay, one.ready, i) for i, one in self._whole(game) if one.waits]
        for who, free in enumerate(game.free):
            if free > game.now or not waiting:
                continue
            waiting.remove(next_one := min(waiting))
            machine = next_one[2]
            one = game.machines[machine - 1]
            if one.start is None:
                one.start = self._put_back(game, machine)
            one.waits, one.waited, one.operator = False, game.now - one.ready, who + 1
            one.ready = game.free[who] = game.now + self._reset_time
            game.busy[who] += self._reset_time

    def _whole(self, game: FleetGame) -> list[tuple[int, Machine]]:
        """The machines that are not broken, by their numbers."""
        return [(i, one) for i, one in enumerate(game.machines, 1) if i not in self.crew.broken]

    def _put_back(self, game: FleetGame, machine: int) -> State:
        """Reset a machine that keeps its own state; None where it is broken."""
        if machine in self.crew.broken:
            return None
        return self.crew.reset(machine, game.chance(machine, 1).random(), game.machines[machine - 1].why)

    def _begin(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: FleetGame) -> None:
        """Have every machine begin that stands and may."""
        standing = [
            (one.ready, i)
            for i, one in self._whole(game)
            if i not in game.under_way and not one.waits and one.ready <= game.now
        ]
        begun = []
        for _, i in sorted(standing):
            if game.k + len(game.under_way) >= self._episodes:
                break
            if not self._counted and not self._may(game, primal, frozenset([ANYTHING])):
                break
            one = game.machines[i - 1]
            held, tries = self._planned(primal, dual, game, one.start)
            if tries and not self._may(game, primal, tries):
                continue
            game.begun += 1
            game.under_way[i] = UnderWay(
                game.begun, one.start, game.now, one.waited, one.operator, held=held, tries=tries
            )
            self.crew.begin(i, game.under_way[i], self._chance(game, i))
            one.begun, one.waited, one.operator = one.begun + 1, 0.0, 0
            begun.append(i)
        for i in begun:
            self._take(game, i)

    def _take(self, game: FleetGame, machine: int) -> None:
        """Wait for the episode of a machine; one that was lost begins it again, or must be reset first."""
        found = self.crew.episode(machine)
        while found is None and not self._problem.persistent:
            self.crew.begin(machine, game.under_way[machine], self._chance(game, machine, again=True))
            found = self.crew.episode(machine)
        if found is None:
            game.lose(machine)
        else:
            self._results[machine] = found

    def _chance(self, game: FleetGame, machine: int, again: bool = False) -> Floats:
        """The uniforms of a machine's next episode, or of the one under way."""
        one = game.machines[machine - 1]
        rng = np.random.default_rng([game.seed, machine, one.begun - again])
        return rng.random(self._problem.n_uniforms)

    def _planned(
        self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: FleetGame, start: State
    ) -> tuple[HeldPlan, frozenset[Pair]]:
        """The plan of the present states for a start, and what it may try for the first time."""
        key = start if self._counted else np.asarray(start).tobytes()
        if key not in self._plans:
            held = HeldPlan.of(game.k, *make_plan(primal, dual, game, start))
            self._plans[key] = held, self._tries(held.plan.policy, start) if self._counted else frozenset([ANYTHING])
        return self._plans[key]

    def _tries(self, policy: Any, start: State) -> frozenset[Pair]:
        """Pairs that were never tried and that a policy can reach over transitions that were seen."""
        act, found = playable(policy, self._problem), set[Pair]()
        here = {int(start)}
        for h in range(1, self._problem.n_transitions + 1):
            pairs = [(h - 1 if self._layered else 0, s, int(a)) for s in here for a in np.flatnonzero(act(h, s))]  # type: ignore[operator]
            found.update(pair for pair in pairs if pair not in self._after)
            here = set().union(*(self._after[pair] for pair in pairs if pair in self._after))
            if not here:
                break
        return frozenset(found)

    def _may(self, game: FleetGame, primal: PrimalPlayer[Any], tries: frozenset[Pair]) -> bool:
        """Whether a trial may begin beside those that are under way."""
        others = [one.tries for one in game.under_way.values() if one.tries]
        if not others:
            return True
        if self._problem.units is None:  # the first episode shows how rewards are scaled
            return False
        if self._counted and any(tries & one for one in others):
            return False
        recent = game.trials[len(game.trials) // 2 :]
        usual = (sum(recent) + 1) / (len(recent) + 2)
        map_ = primal.danger(game.primal) if isinstance(primal, MapsDanger) and self._counted else None

        def risk(pairs: frozenset[Pair]) -> float:
            return usual if map_ is None else max(usual, *(float(map_.belief[s, a]) for _, s, a in pairs))

        return sum(map(risk, others)) <= self._risk

    def plan(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game) -> tuple[int, float, Plan] | None:
        """The plan of the episode that is over."""
        assert isinstance(game, FleetGame)
        assert game.last is not None
        return game.last[1].held[:3]

    def episode(self, problem: Problem, policy: Any, game: Game) -> Episode:
        """The episode that is over."""
        assert isinstance(game, FleetGame)
        assert game.last is not None
        return self._results.pop(game.last[0])

    def learn(self, primal: PrimalPlayer[Any], dual: DualPlayer[Any], game: Game, this: Round) -> None:
        """Have the players learn, and the machine go on from where it stands."""
        assert isinstance(game, FleetGame)
        assert game.last is not None
        machine, one = game.last
        learn_round(primal, dual, game, this)
        game.s1 = this.s1
        self.learned(this.episode)
        settle(game, machine, this.episode, bool(one.tries))


def settle(game: FleetGame, machine: int, episode: Episode, was_trial: bool) -> None:
    """A machine after its episode: it stands where that ended, or waits for an operator."""
    one = game.machines[machine - 1]
    one.start, one.ready, one.why, one.waits = episode.next_start, game.now, "reset", episode.reset
    one.resets += episode.reset
    one.pay = MEMORY * one.pay + (1.0 - MEMORY) * episode.total_reward / max(len(episode.actions), 1)
    if was_trial:
        game.trials.append(bool(episode.reset))
