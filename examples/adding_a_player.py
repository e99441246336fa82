"""A primal player of your own in one file: check it against the contract, then let it play."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

import resetfree as rf
from resetfree.players.testing.battery import check_primal, primal_checks


@dataclass
class Seen:
    """What the player has learned: arrays and numbers only, so that a checkpoint can hold it."""

    tried: np.ndarray[Any, Any]  # [L, S, A] how often a pair was tried: one layer L, or one per step
    earned: np.ndarray[Any, Any]  # [L, S, A] sum of its rewards
    hurt: np.ndarray[Any, Any]  # [L, S, A] how often a reset followed
    moved: np.ndarray[Any, Any]  # [L, S, A, S] counts of the next state otherwise
    horizon: int = field(metadata={"saved": False})  # a constant, which `init` sets again


@dataclass(frozen=True)
class Curious(rf.PrimalPlayer[Seen]):
    """Plans on averages, with a bonus of curiosity / sqrt(n) for a pair that was tried n times."""

    name: ClassVar[str] = "curious"
    curiosity: float = 0.1

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Seen:
        """The state before the first episode: all counts are zero."""
        if problem.n_states is None:
            raise rf.NotCertifiable("The player 'curious' needs finitely many states. Got a continuum instead.")
        shape = (1 if problem.stationary else problem.horizon, problem.n_states, problem.n_actions)
        return Seen(
            np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros((*shape, problem.n_states)), problem.horizon
        )

    def plan(self, state: Seen, s1: Any, lam: float) -> rf.Plan:
        """The best policy for V_r - lam V_c, backwards from the last step; changes nothing in `state`."""
        if not 0 <= lam < np.inf:
            raise rf.InvalidInput(f"A multiplier must be a finite number that is not negative. Got {lam} instead.")
        layers, n_states, _ = state.tried.shape
        policy = np.empty((state.horizon, n_states), dtype=np.int64)
        v_r, v_c, here = np.zeros(n_states), np.zeros(n_states), np.arange(n_states)
        for h in reversed(range(state.horizon)):
            layer = min(h, layers - 1)
            n, left = state.tried[layer], state.horizon - h
            often = np.maximum(n, 1)
            ends = np.maximum(state.moved[layer].sum(axis=2) + state.hurt[layer], 1)
            reward = state.earned[layer] / often + self.curiosity / np.sqrt(often)
            q_r = np.where(n > 0, np.minimum(reward + state.moved[layer] @ v_r / ends, left), left)
            q_c = np.minimum((state.hurt[layer] + state.moved[layer] @ v_c) / ends, 1.0)
            policy[h] = np.argmax(q_r - lam * q_c, axis=1)
            v_r, v_c = q_r[here, policy[h]], q_c[here, policy[h]]
        return rf.Plan(policy, float(v_r[s1]), float(v_c[s1]))

    def update(self, state: Seen, round: rf.Round) -> Seen:
        """Count the transitions of the episode."""
        episode, layers = round.episode, len(state.tried)
        for h, (s, a, reward) in enumerate(zip(episode.states, episode.actions, episode.rewards, strict=False)):
            pair = (min(h, layers - 1), s, a)
            state.tried[pair] += 1
            state.earned[pair] += reward
            if episode.reset and h + 1 == len(episode.actions):
                state.hurt[pair] += 1
            elif h + 1 < len(episode.states):  # under the literal boundary the last action has no next state
                state.moved[pair][episode.states[h + 1]] += 1
        return state


if __name__ == "__main__":
    check_primal(Curious())
    print(f"'curious' keeps the contract: {len(primal_checks())} checks")
    for dual in ("projected-gradient", "constant-penalty"):
        run = rf.learn("grid-v0", primal=Curious(), dual=dual, episodes=1000, seed=0)
        print(f"against {dual}: Regret {run.regret[-1]:.1f}, expected resets {run.resets[-1]:.1f}")
    print(f"theorem: {run.spec['statements']['primal']['covered']} ({run.spec['statements']['primal']['why']})")
