"""Linear players from the literature: Ghosh et al. (softmax), MDP-EXP2 and OLSVI.FH.

**`GhoshSoftmax`.**
Original: Ghosh, Zhou, Shroff, "Provably efficient model-free constrained RL with linear function approximation" (2022);
the same authors' "Towards achieving sub-linear regret and hard constraint violation in model-free RL" (2024) keeps the
primal part and replaces the dual.
Kept: the regression, the order (start seen, backward pass with the current multiplier, softmax of the same Q in V,
  then the episode), alpha = log|A| K / (2 (1 + xi + H)), and the cap H.
Adapted: xi is B, since its formula 2 H / gamma needs a policy that is safe with a margin gamma, and at threshold
  zero there is none; the utility is a cost on arrival in [0, 1], its width a share of the reward's; the ridge is 1 as
  in the original or scale^2; data may be pooled over the steps.
From memory: the constants of alpha and of the width.

**`MdpExp2`.**
After Wei, Jafarnia-Jahromi, Luo and Jain (2021, "Learning infinite-horizon average-reward MDPs with linear function
approximation"). Kept: a policy is held for an epoch; of every 2N steps the first N are waited for, then one pair is
taken with the sum of the next N rewards; least squares of those sums on the features give w_k, and the next policy is
proportional to exp(eta sum_j phi.w_j). Adapted: the ridge 1 replaces the test of the smallest eigenvalue (which no
one-hot features pass unless every pair is met in every epoch); epochs are whole numbers of real episodes; a reset is
one more transition and takes lam off the reward of its step (lam = 0: resets are free, as in the original); layered
problems have a regression per step; eta is tuned. From memory: the 2N scheme; in the original N is of the order of the
mixing time times log T and the epoch of the order of N / sigma with sigma the excitation, here N = H and the epoch is
about sqrt(K) episodes.

**`OlsviFH`.**
After Wei, Jafarnia-Jahromi, Luo and Jain (2021, "Learning infinite-horizon average-reward MDPs with linear function
approximation"). Kept: the T steps are cut into artificial episodes whose length grows like T^(1/4); within one,
optimistic least squares with value 0 at its end; data of all steps in one regression (`pooled`); linear features; no
reset between artificial episodes. Adapted: a policy is committed for the H steps of a real episode, so all data up to
its start are used, and artificial episodes that begin within it are planned with the same data; a reset is one more
transition, to where the agent was put, and costs lam (lam = 0: resets are free, as in the original); in layered
problems step H is followed by step 1; width scale (length + lam) and ridge scale^2 in place of the proved ones. From
memory: the exponent 1/4 and the shared regression; the length's dependence on d and on the span is left out.

Legend of the compiled code: h from 0; length the steps of an artificial episode; a sample's successor is s' as usual,
or S + s' where a reset put the agent into s', whose value is lam less.
"""

from dataclasses import dataclass, field
from math import isqrt, sqrt
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Floats, Ints, InvalidInput, NonNegative, Range, jit, require
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.players import Build, Method, against, check_restarts, free_and_penalised, no_margin, sizes
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.players.linear.regression import features_of
from resetfree.players.linear.ridge import Regression, empty, expect, learn_episode
from resetfree.problems import Problem, State
from resetfree.problems.finite.backward import exponential_weights


@dataclass(frozen=True)
class GhoshSoftmax(LinearUCB):
    """The primal player of Ghosh et al. (2022, 2024): softmax LSVI-UCB whose values are capped by H at every step.

    `linear-ucb` with the cap H in place of H - h + 1; its settings are those of `linear-ucb`, without `lagged`.

    What the cap breaks (readings.md, A11): r + P V_r can be up to H + 1, so a capped Q_r can lie below it, and the
    induction that makes Q_r - lam Q_c optimistic does not go through. In a problem without a multiplier the cap is
    harmless, since no true value exceeds H. It also makes the values looser, because near the end of an episode nothing
    near H can still be earned.

    >>> import resetfree as rf
    >>> problem = rf.make("grid-v0").problem()
    >>> player = GhoshSoftmax(B=40.0)
    >>> player.plan(player.init(problem, 100, 0), 0, 1.0).v_r
    8.0
    """

    name: ClassVar[str] = "ghosh-softmax"
    suited_states: ClassVar[tuple[str, ...]] = ()  # none: what it varies is better
    baseline: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lagged:
            raise InvalidInput("The 'lagged' of ghosh-softmax must be false. Got True instead.")

    def caps(self, horizon: int) -> Floats:
        """[H] the cap H at every step."""
        return np.full(horizon, float(horizon))

    @staticmethod
    def methods() -> list[Method]:
        """With one multiplier for all starts (2022), and with one that is searched in the episode (2024)."""

        def build(dual: str, **own: Any) -> Build:
            return lambda s: against(GhoshSoftmax(s.B, **s.own), dual, "optimistic", B=s.B, **own)

        text, same = "Softmax LSVI-UCB with cap H,", "The same, its multiplier learning only from episodes that begin"
        lines = [
            ("2022", f"{text} one multiplier for all starts.", build("one-multiplier")),
            ("2022, first start", f"{same} where the first one did.", build("one-multiplier", first_start_only=True)),
            ("2024", f"{text} multiplier searched in the episode.", build("search")),
        ]
        return [Method(f"Ghosh {name}", "baseline", summary, one, rank=10) for name, summary, one in lines]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Never covered: the theorem of the original lacks its margin, and that of the paper its cap."""
        constants = super().statement(problem, episodes).constants
        why = f"{no_margin('Ghosh et al.')}; that of Algorithm 1 needs the cap H - h + 1, and here it is H"
        return Statement({**constants, "cap": float(problem.horizon)}, False, why)


@dataclass
class Exp2State:
    """Summed estimates, the samples of this epoch, and the window that is open."""

    total: Floats  # [L, S, A] sum of phi.w_j
    times: Floats  # [L, S*A] samples of the epoch
    sums: Floats  # [L, S*A] their sums of rewards
    k: int  # episodes seen
    step: int  # of the current 2N, counted from 0
    layer: int  # of the pair whose rewards are being summed
    pair: int
    earned: float
    phi: Floats = field(metadata={"saved": False})  # [S*A, d], empty if one-hot
    shape: tuple[int, int, int] = field(metadata={"saved": False})  # H, S, A
    window: int = field(metadata={"saved": False})  # N
    epoch: int = field(metadata={"saved": False})  # episodes per epoch

    def check_loaded(self) -> None:
        """Check that the pair and the step exist."""
        require(self.layer < len(self.times) and self.pair < self.times.shape[1], "pair must be among those there are")
        require(self.step < 2 * self.window, "'step' must lie within the window")


@dataclass(frozen=True)
class MdpExp2(PrimalPlayer[Exp2State]):
    """MDP-EXP2: exponential weights on action values that are estimated in each epoch, for a life without episodes.

    pi ~ exp(eta sum_j phi.w_j), one policy per epoch, whatever the start and the multiplier.

    eta: step size.  window: N (None: H).  epoch: episodes per epoch (None: sqrt(K)).
    pooled: one regression for all steps, as in the original (stationary problems).

    >>> import resetfree as rf
    >>> state = MdpExp2().init(rf.make("grid-v0").problem(), 2000, 0)
    >>> state.window, state.epoch
    (8, 44)
    """

    name: ClassVar[str] = "mdp-exp2"
    baseline: ClassVar[bool] = True
    prediction: ClassVar[Prediction] = "none"
    eta: NonNegative = 0.1
    window: Annotated[int, Range(1, 10**9)] | None = None
    epoch: Annotated[int, Range(1, 10**9)] | None = None
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> Exp2State:
        """Nothing summed: every action equally likely."""
        layers, n, n_actions = sizes(problem, self.pooled, self.name)
        total, rows = np.zeros((layers, n, n_actions)), (layers, n * n_actions)
        fixed: dict[str, Any] = {
            "phi": np.empty((0, 0)) if problem.phi is None else features_of(problem),
            "shape": (problem.horizon, n, n_actions),
            "window": self.window or problem.horizon,
            "epoch": self.epoch or max(1, isqrt(max(episodes, 1))),
        }
        return Exp2State(total, np.zeros(rows), np.zeros(rows), k=0, step=0, layer=0, pair=0, earned=0.0, **fixed)

    def plan(self, state: Exp2State, s1: State, lam: float) -> Plan:
        """The epoch's policy; it has no estimates for a start, and v_r = v_c = 0 promise nothing."""
        check_multiplier(lam)
        policy = np.empty(state.shape)
        total = np.ascontiguousarray(np.broadcast_to(state.total, state.shape))
        exponential_weights(total, self.eta, policy)
        return Plan(policy, 0.0, 0.0)

    def update(self, state: Exp2State, round: Round) -> Exp2State:
        """Move the window along; at the end of an epoch fit and add."""
        episode, n_layers = round.episode, len(state.total)
        for i, a in enumerate(episode.actions):
            last = episode.reset and i == len(episode.actions) - 1
            pair = int(episode.states[i]) * state.shape[2] + int(a)
            self._step(state, i % n_layers, pair, float(episode.rewards[i]) - (round.lam if last else 0.0))
        state.k += 1
        if state.k % state.epoch == 0:
            state.total += estimates(state.phi, state.times, state.sums).reshape(state.total.shape)
            state.times[:], state.sums[:] = 0.0, 0.0
            state.step = 0
        return state

    def _step(self, state: Exp2State, layer: int, pair: int, reward: float) -> None:
        """One step of the 2N: wait, open, sum, close."""
        if state.step == state.window:
            state.layer, state.pair, state.earned = layer, pair, 0.0
        if state.step >= state.window:
            state.earned += reward
        state.step += 1
        if state.step == 2 * state.window:
            state.times[state.layer, state.pair] += 1.0
            state.sums[state.layer, state.pair] += state.earned
            state.step = 0

    @staticmethod
    def methods() -> list[Method]:
        """Without and with a penalty for a reset; its width is eta."""
        text = "Exponential weights of values fitted per epoch"
        return free_and_penalised("mdp-exp2", text, lambda s: MdpExp2(eta=s.width, pooled=s.pooled), 53)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Its theorem is about another criterion."""
        why = "its sqrt(T) theorem needs uniform mixing and excitation under every policy, and no resets"
        window = self.window or problem.horizon
        return Statement({"eta": self.eta, "window": window, "pooled": self.pooled}, False, why)


def estimates(phi: Floats, times: Floats, sums: Floats) -> Floats:
    """[L, S*A] phi.w with w = (I + sum phi phi^T)^-1 sum phi R per layer; one-hot if `phi` is empty."""
    if phi.size == 0:
        return np.asarray(sums / (times + 1.0))
    fitted = [
        phi @ np.linalg.solve(np.eye(phi.shape[1]) + (phi * n[:, None]).T @ phi, phi.T @ total)
        for n, total in zip(times, sums, strict=True)
    ]
    return np.stack(fitted)


@dataclass
class OlsviState:
    """The regression, and how many steps were taken."""

    regression: Regression  # with 2 S successors: s', and S + s' where a reset put the agent into s'
    steps: int
    phi: Floats = field(metadata={"saved": False})
    layer_of_step: Ints = field(metadata={"saved": False})  # [H]
    shape: tuple[int, int, int] = field(metadata={"saved": False})  # H, S, A
    length: int = field(metadata={"saved": False})


@dataclass(frozen=True)
class OlsviFH(PrimalPlayer[OlsviState]):
    """OLSVI.FH: LSVI-UCB over artificial episodes of about T^(1/4) steps, for a life without episodes.

    Greedy optimistic least squares over artificial episodes of `length` steps (None: T^(1/4), T = K H).

    scale: of the bonus scale (length + lam) |phi|.  pooled: one regression for all steps, as in the original.

    >>> import resetfree as rf
    >>> OlsviFH().init(rf.make("grid-v0").problem(), 2000, 0).length
    11
    """

    name: ClassVar[str] = "olsvi-fh"
    baseline: ClassVar[bool] = True
    prediction: ClassVar[Prediction] = "none"
    scale: Annotated[float, Range(1e-9)] = 0.1
    length: Annotated[int, Range(1, 10**5)] | None = None
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> OlsviState:
        """No data yet."""
        check_restarts(problem, self.name)
        layers, n, n_actions = sizes(problem, self.pooled, self.name)
        phi = features_of(problem)
        d = phi.shape[1]
        if 8 * layers * (d * d + 2 * n * d) > problem.room:
            raise InvalidInput(f"The player 'olsvi-fh' needs too much memory for {d} features and {n} states.")
        regression, kept = empty(phi, 2 * n, layers, self.scale**2)
        steps = np.zeros(problem.horizon, dtype=np.int64) if self.pooled else np.arange(problem.horizon)
        shape = (problem.horizon, n, n_actions)
        return OlsviState(regression, 0, kept, steps, shape, length=self.steps_of(problem, episodes))

    def plan(self, state: OlsviState, s1: State, lam: float) -> Plan:
        """One pass; its values are of artificial episodes, so v_r is clipped to [0, H] and v_c = 0 promises nothing."""
        lam = check_multiplier(lam)
        horizon, n_states, _ = state.shape
        policy, v = np.empty((horizon, n_states), dtype=np.int16), np.zeros(n_states)
        position, beta = state.steps % state.length, self.scale * (state.length + lam)
        unbroken_plan(state.regression, state.phi, state.layer_of_step, position, state.length, beta, lam, policy, v)
        return Plan(policy, min(max(float(v[s1]), 0.0), float(horizon)), 0.0)

    def update(self, state: OlsviState, round: Round) -> OlsviState:
        """Add the steps that were taken; after a reset the successor is n_states + the next start."""
        episode, (_, n_states, n_actions) = round.episode, state.shape
        m = len(episode.actions)
        walk = np.append(episode.states[:m], episode.next_start + (n_states if episode.reset else 0)).astype(np.int64)
        learn_episode(
            state.regression, state.phi, state.layer_of_step, n_actions, walk, episode.actions, episode.rewards
        )
        state.steps += len(episode.actions)
        return state

    def steps_of(self, problem: Problem, episodes: int) -> int:
        """The length of an artificial episode."""
        return self.length or max(1, round(float(max(episodes, 1) * problem.horizon) ** 0.25))

    @staticmethod
    def methods() -> list[Method]:
        """Without and with a penalty for a reset."""
        text = "LSVI-UCB, artificial episodes of T^(1/4) steps"
        return free_and_penalised("olsvi.fh", text, lambda s: OlsviFH(**s.own), 52)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Its theorem is about another criterion."""
        why = "its T^(3/4) theorem is about the average reward of a problem without resets, with the proved width"
        length = self.steps_of(problem, episodes)
        return Statement({"scale": self.scale, "length": length, "pooled": self.pooled}, False, why)


@jit
def unbroken_plan(
    r: Regression,  # with 2 S successors
    phi: Floats,
    layer_of_step: Ints,  # [H]
    position: int,  # of the first real step within its artificial episode
    length: int,
    beta: float,
    lam: float,
    policy: NDArray[np.int16],  # [H, S] out
    v: Floats,  # [S] out: value until the end of the artificial episode in which the real one begins
) -> None:
    """Q = min(what is left, w.phi + beta |phi|), greedy; values restart at the end of each artificial episode."""
    horizon, n_states = policy.shape
    n_actions = r.width2.shape[1] // n_states
    m = r.cross.shape[2] if phi.size == 0 else len(phi)
    value, nothing = np.zeros(2 * n_states), np.zeros(2 * n_states)
    q, unused = np.empty(m), np.empty(m)
    total = (horizon + position + length - 1) // length * length - position  # until the last artificial episode ends
    for i in range(total - 1, -1, -1):
        left = float(length - (position + i) % length)
        for s in range(n_states):
            now = 0.0 if left == 1.0 else v[s]
            value[s], value[n_states + s] = now, now - lam
        layer = layer_of_step[i % horizon]
        expect(r, phi, layer, value, nothing, q, unused)
        for s in range(n_states):
            v[s], best = -np.inf, 0
            for a in range(n_actions):
                j = s * n_actions + a
                one = min(max(q[j] + beta * sqrt(r.width2[layer, j]), -lam * left), left)
                if one > v[s]:
                    v[s], best = one, a
            if i < horizon:
                policy[i, s] = best
