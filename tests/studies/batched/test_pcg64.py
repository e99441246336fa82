"""The device's random numbers are NumPy's, bit for bit."""

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from resetfree.studies.engines.batched import engine as pcg64
from resetfree.studies.engines.batched.engine import in_float64

words = st.integers(0, 2**128 - 1)


@in_float64
def episodes_of(seeds: list[int], offsets: list[int], n_uniforms: int, episodes: int) -> tuple[np.ndarray, np.ndarray]:
    """The first uniform of each seed, and those at `offsets` of each episode, [episodes, n, rows]."""
    first, state, stream = pcg64.after_first(seeds)
    which = pcg64.draws(offsets, n_uniforms, stream)
    now, found = pcg64.Wide(jnp.asarray(state.hi), jnp.asarray(state.lo)), []
    for _ in range(episodes):
        now, u = pcg64.uniforms(now, which)
        found.append(np.asarray(u))
    return first, np.array(found)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 2**63), min_size=2, max_size=2))
def test_uniforms_are_numpys_bit_for_bit(seeds: list[int]) -> None:
    n, offsets = 11, [0, 1, 4, 9, 10]  # the others are jumped over
    first, found = episodes_of(seeds, offsets, n, 3)
    for row, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        assert first[row] == rng.random()
        for u in found:
            np.testing.assert_array_equal(u[:, row], rng.random(n)[offsets])


@settings(max_examples=50)
@given(words, words)
def test_sums_and_products_of_128_bits(x: int, y: int) -> None:
    @in_float64
    def both() -> tuple[int, int]:
        a, b = (pcg64.Wide(jnp.asarray(w.hi), jnp.asarray(w.lo)) for w in (pcg64.split([x]), pcg64.split([y])))
        results = pcg64.add(a, b), pcg64.multiply(a, b)
        total, product = ((int(np.asarray(r.hi)[0]) << 64) + int(np.asarray(r.lo)[0]) for r in results)
        return total, product

    assert both() == ((x + y) % 2**128, (x * y) % 2**128)


@given(st.integers(0, 200), st.integers(0, 200))
def test_jumps_add_up(i: int, j: int) -> None:
    (a, c), (b, d), (e, f) = pcg64.jump(i), pcg64.jump(j), pcg64.jump(i + j)
    assert (a * b % 2**128, (b * c + d) % 2**128) == (e, f)
