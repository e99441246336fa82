"""Policy search for machines with continuous actions: what is kept of a run, and how a policy is found in it.

Legend: see `machine_model`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from resetfree.players.shared.machine_model import Experience, MachineModel, TanhPolicy, fit_machine, search_machine
from resetfree.players.shared.search_state import SearchSettings, SearchState
from resetfree.players.shared.stored_transitions import StoredRows, vectors
from resetfree.problems.action_spaces import Box
from resetfree.problems.contract import State
from resetfree.problems.features._scaling import Scaling, fit_scaling
from resetfree.problems.finite.transitions import Floats

BEGAN = 3  # latest lives whose first states are imagined from
BEFORE = (6, 12)  # so many steps before a fall are imagined from as well, of the latest BEGAN falls


@dataclass
class MachineSearchState(SearchState[TanhPolicy]):
    """What a search among continuous actions keeps, with the models and policies that follow from its rows."""

    models: dict[int, MachineModel] = field(metadata={"saved": False})  # of the first n rows
    found: dict[tuple[int, float], TanhPolicy] = field(metadata={"saved": False})  # in it, for lam

    def model(self, n: int, settings: SearchSettings) -> MachineModel:
        """The model of the first n rows."""
        if n not in self.models:
            rows, taken = self.rows, np.flatnonzero(self.rows.taken(n))
            middle, half = (self.policy.low + self.policy.high) / 2, (self.policy.high - self.policy.low) / 2
            seen = Experience(
                before=rows.state[taken],
                action=(rows.action[taken] - middle) / np.where(half > 0, half, 1.0),
                reward=rows.reward[taken],
                after=rows.state[taken + 1],
                lived=rows.state[:n][~rows.dead[:n]],
                dead=rows.state[:n][rows.dead[:n]],
            )
            scaling = fit_scaling(rows.state[:n], self.low, self.high)
            self.models.clear()
            self.models[n] = fit_machine(
                seen,
                scaling,
                (self.low, self.high),
                waves=settings.waves,
                bandwidth=settings.bandwidth,
                reg=settings.reg,
                bags=settings.bags,
                caution=settings.caution,
                seed=self.seed,
            )
        return self.models[n]

    def search(self, n: int, lam: float, settings: SearchSettings) -> TanhPolicy:
        """The policy of largest worth in the model of the first n rows."""
        if (n, lam) not in self.found:
            rng = np.random.default_rng([self.seed, n])
            model = self.model(n, settings)
            theta = search_machine(
                model,
                _starts(self.rows, n, settings.starts, rng),
                scaled_policy(self.policy, model.scaling),
                lam=lam,
                planning=settings.planning,
                population=settings.population,
                rounds=settings.rounds,
                rng=rng,
            )
            self.found.clear()
            self.found[n, lam] = unscaled_policy(theta, model.scaling, self.policy)
        return self.found[n, lam]

    def foresee(self, n: int, policy: TanhPolicy, s1: State, settings: SearchSettings) -> tuple[float, float]:
        """What the model of the first n rows predicts of an episode from s1: its reward, the probability of a reset."""
        model = self.model(n, settings)
        start = np.repeat(model.scaling(vectors(np.asarray([s1]))), settings.bags, axis=0)
        noise = np.zeros((self.horizon, *start.shape))
        earned, reset = model.imagine(scaled_policy(policy, model.scaling)[None], start, noise)
        return float(earned.mean()), float(reset.mean())


def unscaled_policy(theta: Floats, scaling: Scaling, like: TanhPolicy) -> TanhPolicy:
    """The policy of theta [A, D + 1] for states that are not scaled."""
    weight = theta[:, :-1] / scaling.scale
    return TanhPolicy(weight, theta[:, -1] - weight @ scaling.centre, like.low, like.high)


def scaled_policy(policy: TanhPolicy, scaling: Scaling) -> Floats:
    """Theta [A, D + 1] of a policy for states that are scaled."""
    offset = policy.offset + policy.weight @ scaling.centre
    return np.concatenate([policy.weight * scaling.scale, offset[:, None]], axis=1)


def no_policy(box: Box, size: int) -> TanhPolicy:
    """Every action of the box equally likely."""
    low, high = box.low.ravel().astype(np.float64), box.high.ravel().astype(np.float64)
    return TanhPolicy(np.zeros((box.size, size)), np.zeros(box.size), low, high)


def _starts(rows: StoredRows, n: int, count: int, rng: np.random.Generator) -> Floats:
    """Where the last lives began, the agent's state, states it has visited, and states shortly before a fall."""
    fell = np.flatnonzero(rows.dead[:n])
    lived = np.flatnonzero(~rows.dead[:n])
    began = np.append(0, fell[fell < n - 1] + 1)[-BEGAN:]
    shortly = [max(0, at - steps) for at in fell[-BEGAN:] for steps in BEFORE]
    return np.asarray(rows.state[np.concatenate([began, lived[-1:], rng.choice(lived, count), shortly]).astype(int)])
