// The live figure of the page "The idea": a slider for the price of a reset, and a game in which it rises by itself.
"use strict";
addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("ledge");
  if (!place) return;
  const LIFE = 600, SIZE = 60, threshold = Ledge.tooExpensive(), most = 24, calm = matchMedia("(prefers-reduced-motion: reduce)");
  const corners = Ledge.frontier(), steps = ["0.5", "1", "3"];
  const percent = (x) => (x === 0 ? "0 %" : x < 0.001 ? "under 0.1 %" : `${(100 * x).toFixed(x < 0.1 ? 1 : 0)} %`);

  place.innerHTML = `
    <div class="ledge-controls">
      <label class="ledge-price"><span>Price of a reset: <output id="ledge-price">0</output></span>
        <input type="range" min="0" max="${most}" step="0.1" value="0" aria-describedby="ledge-words">
        <span class="ledge-mark" style="left: ${(100 * threshold) / most}%">${threshold.toFixed(1)}: too expensive</span></label>
      <button type="button" id="ledge-raise">Raise the price</button>
      <button type="button" id="ledge-play">Let the game play</button>
      <label>after each fall by <select>${steps.map((s) => `<option${s === "1" ? " selected" : ""}>${s}</option>`).join("")}</select></label>
    </div>
    <dl class="ledge-tiles simple">
      <div><dt>Reward per episode from the start</dt><dd id="ledge-reward"></dd></div>
      <div><dt>Chance of a reset</dt><dd id="ledge-resets"></dd></div>
      <div><dt>Reward less price × chance</dt><dd id="ledge-score"></dd></div>
    </dl>
    <p id="ledge-words"></p>
    <p id="ledge-said" class="ledge-unseen" role="status"></p>
    <div class="ledge-panels">
      <figure><svg id="ledge-grid" viewBox="-4 -4 ${6 * SIZE + 8} ${3 * SIZE + 8}" role="img"></svg>
        <figcaption>The best answer at this price: arrows for the first step, the path if nothing slips, and how often each cell is visited.</figcaption></figure>
      <figure><svg id="ledge-curve" viewBox="0 0 368 200" role="img"></svg>
        <figcaption>What can be earned at which risk. The line has the price as its slope; it touches the best answer.</figcaption></figure>
      <figure><svg id="ledge-count" viewBox="0 0 368 200" role="img"></svg>
        <figcaption>The game: resets so far, and with them the price.</figcaption></figure>
      <figure><svg id="ledge-pay" viewBox="0 0 368 200" role="img"></svg>
        <figcaption>The game: reward of each episode, and the mean of the last twenty.</figcaption></figure>
    </div>`;
  const $ = (selector) => place.querySelector(selector);
  const [slider, raise, play, size] = ["input", "#ledge-raise", "#ledge-play", "select"].map($);
  let game = null, history = [], trail = null, running = null, seed = 1;

  const put = (svg, label, shapes) => {
    svg.setAttribute("aria-label", label);
    svg.innerHTML = shapes.join("");
  };
  const text = (x, y, words, kind = "", anchor = "middle") => `<text x="${x}" y="${y}" class="${kind}" text-anchor="${anchor}">${words}</text>`;
  const line = (points, kind) => `<polyline class="${kind}" points="${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ")}"/>`;
  const centre = (s) => [((s % Ledge.columns) + 0.5) * SIZE, (Math.floor(s / Ledge.columns) + 0.5) * SIZE];

  function grid(price) {
    const { policy, resets } = Ledge.answer(price), often = Ledge.visits(policy), shapes = [];
    [...Ledge.cells].forEach((letter, s) => {
      const [x, y] = centre(s), box = `x="${x - SIZE / 2 + 1}" y="${y - SIZE / 2 + 1}" width="${SIZE - 2}" height="${SIZE - 2}" rx="5"`;
      shapes.push(`<rect ${box} class="${Ledge.reset[s] ? "abyss" : letter === "G" ? "gold" : "free"}"/>`);
      if (Ledge.reset[s]) {
        if (often[s] >= 0.001) shapes.push(text(x, y + 4, percent(often[s]), "fall"));
        return;
      }
      shapes.push(`<circle class="visits" cx="${x}" cy="${y}" r="${(11 * Math.sqrt(often[s])).toFixed(1)}"/>`);
      const [dr, dc] = Ledge.MOVES[policy[0][s]];
      shapes.push(`<path class="arrow" transform="translate(${x + 22 * dc} ${y + 22 * dr}) rotate(${(Math.atan2(dr, dc) * 180) / Math.PI})" d="M-4,-5 L4,0 L-4,5 Z"/>`);
      if (letter === "G") shapes.push(text(x - 26, y - 18, "+1", "note", "start"));
      if (letter === "S") shapes.push(text(x - 26, y + 25, "start", "note", "start"));
    });
    const path = trail ?? Ledge.walk(policy), shift = (i) => 2.5 * Math.sin(2.4 * i); // so that ways back are seen
    shapes.push(line(path.map((s, i) => centre(s).map((x) => x + shift(i))), trail ? "trail" : "path"));
    const end = centre(path.at(-1));
    shapes.push(`<circle class="${Ledge.reset[path.at(-1)] ? "fallen" : "agent"}" cx="${end[0]}" cy="${end[1]}" r="7"/>`);
    put($("#ledge-grid"), `A ledge of two rows of six cells above an abyss. At price ${price.toFixed(1)} the chance of a fall is ${percent(resets[Ledge.start])}.`, shapes);
  }

  // Axes with a few ticks, and what maps numbers onto them.
  function axes(xs, ys, xname, yname) {
    const [left, right, top, bottom] = [34, 356, 22, 168];
    const x = (v) => left + ((right - left) * v) / xs.at(-1), y = (v) => bottom - ((bottom - top) * v) / ys.at(-1);
    const shapes = [line([[left, top], [left, bottom], [right, bottom]], "axis"), text(right, 196, xname, "", "end"), text(2, 12, yname, "", "start")];
    for (const v of xs) shapes.push(text(x(v), bottom + 14, v));
    for (const v of ys) shapes.push(text(left - 5, y(v) + 4, v, "", "end"));
    return { x, y, shapes };
  }

  function curve(price) {
    const { x, y, shapes } = axes([0, 0.1, 0.2, 0.3, 0.4, 0.5], [0, 2, 4, 6], "chance of a reset", "reward per episode");
    const now = Ledge.answer(price), [c, r] = [now.resets[Ledge.start], now.reward[Ledge.start]];
    const points = corners.map((p) => [x(p.resets), y(p.reward)]);
    shapes.push(`<polygon class="reach" points="${[...points, [x(0), y(0)], [x(corners[0].resets), y(0)]].map(String).join(" ")}"/>`, line(points, "edge"));
    const level = r - price * c, until = Math.min(0.5, (6.3 - level) / Math.max(price, 1e-9));
    shapes.push(line([[x(0), y(level)], [x(until), y(level + price * until)]], "price"));
    shapes.push(`<circle class="agent" cx="${x(c)}" cy="${y(r)}" r="6"/>`);
    put($("#ledge-curve"), `Reward ${r.toFixed(2)} at a chance of a reset of ${percent(c)}.`, shapes);
  }

  function charts() {
    const step = Number(size.value), limit = threshold / step, high = step < 1 ? [0, 10, 20, 30, 40] : step > 1 ? [0, 2, 4, 6, 8] : [0, 5, 10, 15, 20];
    const count = axes([0, 200, 400, 600], high, "episodes", "resets"), pay = axes([0, 200, 400, 600], [0, 5, 10, 15], "episodes", "reward");
    count.shapes.push(line([[count.x(0), count.y(limit)], [count.x(LIFE), count.y(limit)]], "price"));
    count.shapes.push(text(count.x(LIFE), count.y(limit) - 5, `price ${threshold.toFixed(1)}: too expensive`, "pricename", "end"));
    const stairs = [[count.x(0), count.y(0)]];
    let fallen = 0;
    history.forEach(({ fell }, k) => {
      if (!fell) return;
      stairs.push([count.x(k + 1), count.y(fallen)], [count.x(k + 1), count.y((fallen += 1))]);
    });
    stairs.push([count.x(history.length), count.y(fallen)]);
    count.shapes.push(line(stairs, "falls"));
    put($("#ledge-count"), `${fallen} resets in ${history.length} episodes.`, count.shapes);
    pay.shapes.push(...history.map(({ reward, fell }, k) => `<circle class="${fell ? "fallen" : "dot"}" cx="${pay.x(k + 1).toFixed(1)}" cy="${pay.y(reward).toFixed(1)}" r="1.6"/>`));
    const mean = history.map((_, k) => {
      const last = history.slice(Math.max(0, k - 19), k + 1);
      return [pay.x(k + 1), pay.y(last.reduce((sum, e) => sum + e.reward, 0) / last.length)];
    });
    if (mean.length > 1) pay.shapes.push(line(mean, "mean"));
    if (!history.length) for (const { x, shapes } of [count, pay]) shapes.push(text(x(LIFE / 2), 100, "press “Let the game play”", "hint"));
    put($("#ledge-pay"), history.length ? `Mean reward of the last twenty episodes: ${recent(history.length).toFixed(1)}.` : "No episode yet.", pay.shapes);
  }

  const recent = (k) => {
    const last = history.slice(Math.max(0, k - 20), k);
    return last.reduce((sum, e) => sum + e.reward, 0) / last.length;
  };

  function words(price) {
    const chance = Ledge.answer(price).resets[Ledge.start];
    if (game) {
      const said = `${game.resets} ${game.resets === 1 ? "reset" : "resets"} in ${game.episodes} episodes; the price is ${game.price}.`;
      if (game.price < threshold) return `${said} Falling still pays now and then.`;
      const first = recent(20), after = history.slice(-100).reduce((sum, e) => sum + e.reward, 0) / Math.min(100, history.length);
      return `${said} That is above ${threshold.toFixed(1)}: from here on the robot never falls, whatever happens. ${game.episodes < LIFE ? "" : `It earns ${after.toFixed(1)} per episode instead of ${first.toFixed(1)} in its first twenty.`}`;
    }
    if (price >= threshold) return `Too expensive: from a price of ${threshold.toFixed(1)} on, the best the robot can do is never to fall.`;
    if (chance < 0.2) return `Nearly every risk is too expensive, but not all: the robot steps onto the gold and back up to the wall, and takes a chance at the very end of an episode.`;
    if (price === 0) return `Falling is free: the robot takes the shortest way, along the edge, and stays on the gold.`;
    return `The robot keeps away from the edge on its way, but once on the gold it stays there for a while and takes the risk.`;
  }

  function show(charted = true) {
    const price = game ? game.price : Number(slider.value), { reward, resets } = Ledge.answer(price), s = Ledge.start;
    if (game) slider.value = price;
    $("#ledge-price").textContent = price.toFixed(1);
    $("#ledge-reward").textContent = reward[s].toFixed(2);
    $("#ledge-resets").textContent = percent(resets[s]);
    $("#ledge-score").textContent = (reward[s] - price * resets[s]).toFixed(2);
    $("#ledge-words").textContent = words(price);
    place.classList.toggle("is-expensive", price >= threshold);
    slider.setAttribute("aria-valuetext", `${price.toFixed(1)}, chance of a reset ${percent(resets[s])}`);
    grid(price);
    curve(price);
    if (charted) charts();
  }

  function halt() {
    cancelAnimationFrame(running?.frame);
    running = null;
    raise.textContent = "Raise the price";
    play.textContent = game && game.episodes < LIFE ? "Continue the game" : "Let the game play";
  }
  // tick(seconds since the last picture) says whether there is more to show.
  function animate(button, tick) {
    halt();
    button.textContent = "Pause";
    const self = (running = { button });
    let before = performance.now();
    const draw = (now) => {
      if (running !== self) return;
      const more = tick((now - before) / 1000);
      before = now;
      show(game !== null);
      if (more) self.frame = requestAnimationFrame(draw);
      else finish();
    };
    self.frame = requestAnimationFrame(draw);
  }
  function finish() {
    trail = null;
    halt();
    show();
    $("#ledge-said").textContent = $("#ledge-words").textContent;
  }
  const byHand = () => {
    game = trail = null;
    halt();
  };

  slider.addEventListener("input", () => {
    byHand();
    show(false);
  });
  slider.addEventListener("change", () => ($("#ledge-said").textContent = $("#ledge-words").textContent));
  raise.addEventListener("click", () => {
    const going = running?.button === raise;
    byHand();
    if (going) return show(false);
    if (Number(slider.value) >= most) slider.value = 0;
    if (calm.matches) { // one press, one change of behaviour that can be seen
      const now = Ledge.answer(Number(slider.value)).resets[Ledge.start];
      do slider.stepUp(); while (Number(slider.value) < most && now - Ledge.answer(Number(slider.value)).resets[Ledge.start] < 0.02 && Number(slider.value) < threshold);
      return finish();
    }
    let price = Number(slider.value);
    animate(raise, (seconds) => (slider.value = price = Math.min(most, price + 2 * seconds)) < most);
  });
  play.addEventListener("click", () => {
    if (running?.button === play) return halt();
    if (!game || game.episodes >= LIFE) {
      [game, history] = [Ledge.life(seed++, Number(size.value)), []];
    }
    const one = () => {
      const episode = game.play();
      history.push(episode);
      trail = episode.path;
    };
    if (calm.matches) {
      while (game.episodes < LIFE) one();
      return finish();
    }
    let due = 0;
    animate(play, (seconds) => {
      due += Math.min(seconds, 0.1) * Math.min(60, 3 + game.episodes / 3); // slow at first, to be followed
      for (; due >= 1 && game.episodes < LIFE; due--) one();
      return game.episodes < LIFE;
    });
  });
  size.addEventListener("change", () => {
    byHand();
    history = [];
    show();
  });
  place.dataset.ready = "";
  show();
});
