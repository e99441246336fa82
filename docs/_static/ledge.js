// The ledge of the page "The idea": its model, the best answer to a price, the price that is too expensive, and one rollout.
// Nothing here knows of the page: tests/show/test_ledge.py runs this file beside the library, and both must agree.
"use strict";
const Ledge = (() => {
  const ROWS = ["......", "S....G", "XXXXXX"]; // S start and restart, G pays 1 per step, X abyss: a reset
  const HORIZON = 14;
  const MOVES = [[-1, 0], [1, 0], [0, -1], [0, 1]]; // up, down, left, right
  const STRAIGHT = 18, SIDE = 1, OF = 20; // a move slips to either side with probability 1/20 each
  const TIE = 1e-10; // answers that differ by less are equally good, and the one with fewer resets is taken

  const columns = ROWS[0].length, cells = ROWS.join(""), n = cells.length;
  const reset = [...cells].map((letter) => letter === "X");
  const pays = [...cells].map((letter) => (letter === "G" ? 1 : 0));
  const start = cells.indexOf("S");

  function moved(s, [down, right]) {
    const r = Math.floor(s / columns) + down, c = (s % columns) + right;
    return r < 0 || r >= ROWS.length || c < 0 || c >= columns ? s : r * columns + c; // the rim is a wall
  }

  // next[s][a]: pairs of a state and its probability.
  const next = [...cells].map((_, s) =>
    MOVES.map(([dr, dc]) => {
      const weight = new Map();
      for (const [move, w] of [[[dr, dc], STRAIGHT], [[dc, dr], SIDE], [[-dc, -dr], SIDE]]) {
        const to = moved(s, move);
        weight.set(to, (weight.get(to) ?? 0) + w);
      }
      return [...weight].map(([to, w]) => [to, w / OF]);
    }),
  );

  // Value iteration backwards from the last step; score(reward, resets) ranks the actions of a state.
  function backwards(score) {
    let vr = new Array(n).fill(0), vc = reset.map(Number);
    const policy = [];
    for (let h = HORIZON - 1; h >= 0; h--) {
      const [earned, fallen, chosen] = [new Array(n).fill(0), reset.map(Number), new Array(n).fill(0)];
      for (let s = 0; s < n; s++) {
        if (reset[s]) continue;
        let best = -Infinity;
        MOVES.forEach((_, a) => {
          let r = pays[s], c = 0;
          for (const [to, p] of next[s][a]) [r, c] = [r + p * vr[to], c + p * vc[to]];
          const q = score(r, c);
          if (q > best + TIE || (q > best - TIE && c < fallen[s])) [best, earned[s], fallen[s], chosen[s]] = [q, r, c, a];
        });
      }
      [vr, vc] = [earned, fallen];
      policy.unshift(chosen);
    }
    return { policy, reward: vr, resets: vc }; // policy[h][s]; the others by start, for one episode
  }

  const answers = new Map();
  // The policy with the largest reward - price * resets, from every start at once.
  function answer(price) {
    if (!answers.has(price)) {
      if (answers.size > 2000) answers.clear();
      answers.set(price, backwards((r, c) => r - price * c));
    }
    return answers.get(price);
  }

  // The best policy among those that are never reset: an action that may lead to a reset is out of the question.
  const safe = backwards((r, c) => (c > 0 ? -1e9 * (1 + c) : r));

  // The least price at which falling no longer pays: Newton's method on the best excess over the safe policy.
  function tooExpensive(s = start) {
    for (let price = 0; ; ) {
      const { reward, resets } = answer(price);
      if (resets[s] === 0) return price;
      const needed = (reward[s] - safe.reward[s]) / resets[s];
      if (!(needed > price)) return price;
      price = needed;
    }
  }

  // All (price from which, resets, reward) that are best answers at some price, cheapest price first.
  function frontier(s = start) {
    const at = (price) => ({ resets: answer(price).resets[s], reward: answer(price).reward[s] });
    const found = [];
    const between = (left, right) => {
      const price = (left.reward - right.reward) / (left.resets - right.resets), middle = at(price);
      const gain = middle.reward - price * middle.resets - (right.reward - price * right.resets);
      if (gain < 1e-9) return found.push({ price, ...right });
      between(left, middle);
      between(middle, right);
    };
    const [first, last] = [at(0), { resets: 0, reward: safe.reward[s] }];
    found.push({ price: 0, ...first });
    if (first.resets > 0) between(first, last);
    return found;
  }

  // Expected visits to each cell in an episode; for an abyss the probability of ending there.
  function visits(policy, s = start) {
    let here = new Array(n).fill(0);
    here[s] = 1;
    const total = [...here];
    for (const chosen of policy) {
      const there = new Array(n).fill(0);
      here.forEach((mass, at) => {
        if (mass > 0 && !reset[at]) for (const [to, p] of next[at][chosen[at]]) there[to] += mass * p;
      });
      there.forEach((mass, at) => (total[at] += mass));
      here = there;
    }
    return total;
  }

  // The cells of an episode; random() in [0, 1) decides where each move slips, without it none does.
  function walk(policy, s = start, random = null) {
    const path = [s];
    for (const chosen of policy) {
      const u = random?.() ?? 0, at = path.at(-1);
      let to = moved(at, MOVES[chosen[at]]), sum = 0;
      if (random) for (const [cell, p] of next[at][chosen[at]]) if (u >= sum && u < (sum += p)) to = cell;
      path.push(to);
      if (reset[to]) break;
    }
    return path;
  }

  // Random numbers that can be repeated (mulberry32).
  function generator(seed) {
    let a = seed | 0;
    return () => {
      a = (a + 0x6d2b79f5) | 0;
      let t = Math.imul(a ^ (a >>> 15), 1 | a);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  // One life: each episode begins where the last one ended, and the price rises by `step` with every reset.
  function life(seed, step) {
    const random = generator(seed);
    const now = { price: 0, at: start, resets: 0, episodes: 0 };
    now.play = () => {
      const path = walk(answer(now.price).policy, now.at, random), end = path.at(-1), fell = reset[end];
      const reward = path.slice(0, -1).reduce((sum, s) => sum + pays[s], 0); // for acting on a cell
      now.episodes += 1;
      if (fell) [now.resets, now.price] = [now.resets + 1, now.price + step];
      now.at = fell ? start : end;
      return { path, reward, fell };
    };
    return now;
  }

  return { ROWS, HORIZON, MOVES, columns, cells, reset, start, answer, safe, tooExpensive, frontier, visits, walk, life };
})();
if (typeof module !== "undefined") module.exports = Ledge;
