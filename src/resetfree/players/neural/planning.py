"""Planning on top of the actor's feedback: offsets of its next actions, by the cross-entropy method. Extra `neural`.

Legend: see `actor_critic`; P samples of offsets, T steps ahead. An action is the actor's in the state that a rollout is
in, plus an offset; its value is that of the rollout, critics at its end included. Policies while networks learn are
smooth noise around the middle of the box, then a plan at each step; both are values, made of arrays. What is exported
is the actor's feedback alone, `actor_critic.SkipPolicy`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.extras import Deferred, jitted
from resetfree.players.neural.actor_critic import (
    DISCOUNT,
    FALL_DISCOUNT,
    Objective,
    PlanSizes,
    action_of,
    over_members,
    utility,
    worst_values,
)
from resetfree.players.neural.networks import FAR
from resetfree.players.neural.world_model import Normaliser, Tree, stepped
from resetfree.problems.action_spaces import from_unit
from resetfree.problems.contract import Policy, State

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
else:
    jax, jnp = Deferred("jax"), Deferred("jax.numpy")


KEPT, CORRELATION = 0.8, 0.6  # of the last plan, and of successive offsets in a sample
ELITES = 8  # one sample in so many counts
LEAST_SPREAD = 0.02  # of a later round's samples


def values_of(tree: Tree, z: Any, offsets: Any, aim: Objective, members: int) -> Any:
    """[P] the value of offsets [P, T, A] from z [D], by the means of the first members."""
    model = tuple((weight[:members], bias[:members]) for weight, bias in tree["model"])
    count, scales = offsets.shape[0], tree["scales"]

    def one(carry: Any, now: Any) -> Any:
        z, alive, value = carry
        change, t = now
        a = jnp.clip(action_of(tree["actor"], z) + change, -1.0, 1.0)
        after, reward, fall = stepped(model, scales, z, a, 0.0)
        earned = DISCOUNT**t * (1.0 - fall) * utility(reward, aim)
        return (after, alive * (1.0 - fall), value + alive * (earned - FALL_DISCOUNT**t * aim.price * fall)), None

    steps = offsets.shape[1]
    begin = jnp.broadcast_to(z, (members, count, z.shape[-1])), jnp.ones((members, count)), jnp.zeros((members, count))
    last, _ = jax.lax.scan(one, begin, (offsets.swapaxes(0, 1), jnp.arange(steps)))
    z, alive, value = last
    beyond, falls = worst_values(tree["critics"], z)
    value += alive * (DISCOUNT**steps * beyond - FALL_DISCOUNT**steps * aim.price * falls)
    return over_members(value, aim)


def plan_from(tree: Tree, z: Any, before: Any, key: Any, aim: Objective, sizes: PlanSizes) -> tuple[Any, Any]:
    """The next action [A] on [-1, 1] in z [D], and the offsets [T, A] that it begins.

    before: [T, A] the plan of the step before, which is moved on; zeros without one.
    """
    mean = KEPT * jnp.concatenate([before[1:], jnp.zeros_like(before[:1])])
    spread = jnp.full_like(mean, aim.spread)
    elites = max(4, sizes.samples // ELITES)

    def one(carry: Any, key: Any) -> Any:
        mean, spread = carry
        fresh = jax.random.normal(key, (sizes.samples - 2, *mean.shape))
        held = jnp.sqrt(1.0 - CORRELATION**2)

        def correlate(last: Any, now: Any) -> Any:
            now = CORRELATION * last + held * now
            return now, now

        _, noise = jax.lax.scan(correlate, fresh[:, 0], fresh.swapaxes(0, 1))
        offsets = jnp.concatenate([jnp.zeros_like(mean)[None], mean[None], mean + spread * noise.swapaxes(0, 1)])
        value, index = jax.lax.top_k(values_of(tree, z, offsets, aim, sizes.members), elites)
        part = jax.nn.softmax((value - value[0]) / jnp.maximum(value.std(), 1e-3))[:, None, None]
        mean = (part * offsets[index]).sum(axis=0)
        spread = jnp.sqrt((part * (offsets[index] - mean) ** 2).sum(axis=0)) + LEAST_SPREAD
        return (mean, spread), None

    (mean, _), _ = jax.lax.scan(one, (mean, spread), jax.random.split(key, sizes.rounds))
    return jnp.clip(action_of(tree["actor"], z) + mean[0], -1.0, 1.0), mean


@jitted("sizes")
def next_action(
    tree: Tree, z: Any, before: Any, seed: Any, h: Any, aim: Objective, sizes: PlanSizes
) -> tuple[Any, Any]:
    """`plan_from` at step h, compiled; its random numbers follow from the seed and h."""
    return plan_from(tree, z, before, jax.random.fold_in(jax.random.key(seed), h), aim, sizes=sizes)


@dataclass
class NoisePolicy(Policy):
    """The middle of the box and some noise, which was drawn beforehand."""

    noise: Floats  # [H, A] on [-1, 1]
    low: Floats  # [A] the box
    high: Floats  # [A]

    def act(self, h: int, s: State, u: Any) -> Floats:
        """[A] the noise of step h."""
        return from_unit(self.noise[(h - 1) % len(self.noise)], self.low, self.high)

    def mode(self, h: int, s: State) -> Floats:
        """[A] the middle of the box."""
        return from_unit(np.zeros(len(self.low)), self.low, self.high)


@dataclass
class PlannedPolicy(Policy):
    """The actor's action and the first of the offsets that a plan finds, with a little noise.

    A plan begins with the one of the step before, if that was made by this policy in this episode, and else from
    nothing. So an episode follows from its states; an action alone follows from the state and the plans before it.
    """

    networks: dict[str, Any]  # model, actor and critics
    scales: dict[str, Any]
    aim: dict[str, Any]
    sizes: tuple[int, ...]
    noise: Floats  # [H, A]
    low: Floats  # [A] the box
    high: Floats  # [A]
    seed: int = 0

    @cached_property
    def _tree(self) -> Any:
        """The networks where JAX computes."""
        import jax

        return jax.device_put({**self.networks, "scales": Normaliser(**self.scales)})

    @cached_property
    def _plans(self) -> dict[int, Any]:
        """The plan of each step."""
        return {}

    def _planned(self, h: int, s: State) -> Floats:
        scales, sizes = Normaliser(**self.scales), PlanSizes(*self.sizes)
        s = np.atleast_1d(np.asarray(s, dtype=np.float64))
        z = np.clip((s - scales.centre) / scales.scale, -FAR, FAR).astype(np.float32)
        before = self._plans.get(h - 1) if h > 1 else None
        if before is None:
            before = np.zeros((sizes.steps, len(self.low)), np.float32)
        seed, step = np.uint32(self.seed), np.uint32(h)
        action, self._plans[h] = next_action(self._tree, z, before, seed, step, Objective(**self.aim), sizes=sizes)
        return np.asarray(action, dtype=np.float64)

    def act(self, h: int, s: State, u: Any) -> Floats:
        """[A] the planned action and the noise of step h."""
        noisy = self._planned(h, s) + self.noise[(h - 1) % len(self.noise)]
        return from_unit(np.clip(noisy, -1.0, 1.0), self.low, self.high)

    def mode(self, h: int, s: State) -> Floats:
        """[A] the planned action."""
        return from_unit(self._planned(h, s), self.low, self.high)
