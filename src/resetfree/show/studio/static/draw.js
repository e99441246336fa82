// SVG by hand: elements, the map of a problem, and curves.
export function el(name, attributes = {}, ...inside) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}
export function tag(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...inside);
  return made;
}
// What the page says of a machine: its name, what it has to do, and what a hand pushes.
export const MACHINES = {
  "gym:CartPole-v1": ["Cart-pole", "Keep the pole upright. Reset: it leans more than 12 degrees, or the cart is 2.4 m from the middle.", "the pole"],
  "gym:resetfree/CartLoad-v0": ["Crane", "Bring the load to the ring, which moves on. Reset: the rope swings past a red line, or the rail ends.", "the load"],
  "gym:resetfree/Quadrotor-v0": ["Quadrotor", "Fly to the ring, which moves on. Reset: it touches the cage, or leans too far.", "the quadrotor"],
};
export const episodes = (k) => `${k.toLocaleString("en")} episode${k === 1 ? "" : "s"}`;
// A question mark that explains a word; the explanation closes by itself.
const MEANINGS = {
  "primal": "The primal player chooses the policy of each episode: how to act.",
  "dual": "The dual player charges for resets: it names the price of a reset at the start of each episode.",
  "multiplier": "λ, the price of a reset, in units of reward. It rises with the resets that the player expects, or with those that happen, by the feedback of the run.",
  "certified": "A bound on the expected resets, from the resets that happened alone: no model, no assumption, 95 % at every moment at once.",
  "slack": "How far the bound is above what it bounds. A negative slack would refute it.",
};
export function help(word) {
  const id = `meaning-${word}`, box = document.getElementById(id) || document.body.appendChild(tag("div", { id, class: "meaning", popover: "auto" }, MEANINGS[word]));
  const near = ({ currentTarget: button }) => {
    const at = button.getBoundingClientRect(), low = at.bottom > innerHeight - 120;
    Object.assign(box.style, { left: `${Math.max(Math.min(at.left, innerWidth - 328), 8)}px`, top: low ? "auto" : `${at.bottom + 6}px`, bottom: low ? `${innerHeight - at.top + 6}px` : "auto" });
  };
  return tag("button", { type: "button", class: "help", popovertarget: box.id, "aria-label": `What is ${word}?`, onclick: near }, "?");
}

// A claim as people write it: the record spells Greek letters out.
const SYMBOLS = [[/lambda_hat/g, "λ̂"], [/lambda/g, "λ"], [/\blam\b/g, "λ"], [/\bpi\b/g, "π"], [/sqrt\((\w+)\)/g, "√$1"], [/<=/g, "≤"], [/>=/g, "≥"]];
export const spelt = (words) => SYMBOLS.reduce((text, [from, to]) => text.replace(from, to), words);

// A number as terminal and report write it.
export const number = (x) => (x === null || x === undefined ? "–" : Math.abs(x) >= 1000 ? Math.round(x).toLocaleString("en") : x !== 0 && Math.abs(x) < 1e-4 ? (x > 0 ? "under 0.0001" : "above -0.0001") : Number(x.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 6 }));
// The same in few characters, for the axes of charts.
export const short = (x) => (x === null || x === undefined ? "–" : Math.abs(x) >= 1e6 ? (x / 1e6).toPrecision(3) + "M" : Math.abs(x) >= 1e4 ? (x / 1e3).toPrecision(3) + "k" : Number.isInteger(x) ? String(x) : Math.abs(x) < 1e-6 ? "0" : String(Number(x.toPrecision(3))));

let hatches = 0; // each drawing has its own pattern: one in a part of the page that is hidden would show nothing
export function hatch() {
  const lines = el("pattern", { id: `hatch${++hatches}`, width: 0.16, height: 0.16, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, el("rect", { width: 0.05, height: 0.16, class: "tip", "fill-opacity": 0.55 }));
  const tip = el("marker", { id: "tip", viewBox: "0 0 4 4", refX: 2, refY: 2, markerWidth: 4, markerHeight: 4, orient: "auto" }, el("path", { d: "M0 0 4 2 0 4z", class: "tip" }));
  return el("defs", {}, lines, tip);
}
export const hatched = (svg, x, y) => el("rect", { x, y, width: 1, height: 1, class: "hopeless", fill: `url(#${svg.querySelector("pattern").id})` });
export const pit = (x, y, extra = "") => el("circle", { cx: x + 0.5, cy: y + 0.5, r: 0.36, class: "pit-hole " + extra });
export const goal = (x, y, pay) => el("circle", { cx: x + 0.5, cy: y + 0.5, r: pay >= 0.6 ? 0.2 : 0.13, class: "goal" });
export const home = (x, y, again) => el("rect", { x: x + 0.1, y: y + 0.1, width: 0.8, height: 0.8, rx: 0.14, class: again ? "home re" : "home" });

// One triangle per direction; where actions are no directions, one dot for each.
const WEDGES = { up: "0.2,0.13 0.8,0.13 0.5,0.4", down: "0.2,0.87 0.8,0.87 0.5,0.6", left: "0.13,0.2 0.13,0.8 0.4,0.5", right: "0.87,0.2 0.87,0.8 0.6,0.5", stay: "0.5,0.4 0.6,0.5 0.5,0.6 0.4,0.5" };

export class Field {
  constructor(map, lane) {
    this.map = map;
    this.svg = el("svg", { viewBox: `-0.05 -0.05 ${map.cols + 0.1} ${map.rows + 0.1}`, class: "field " + lane, role: "img", "aria-label": "Map of the problem with the agent, its policy and the actions it has not ruled out" }, hatch());
    this.at = map.cells.map((cell) => [cell % map.cols, Math.floor(cell / map.cols)]);
    const A = map.actions.length, directions = map.actions.every((name) => name in WEDGES);
    this.svg.append(el("rect", { x: 0, y: 0, width: map.cols, height: map.rows, class: map.real ? "cell wall" : "cell" }));
    this.heat = [], this.wedges = [], this.pits = [], this.crosses = [];
    const name = (s) => el("title", {}, map.names[s]);
    this.at.forEach(([x, y], s) => this.svg.append(el("rect", { x, y, width: 1, height: 1, class: "cell" }, name(s))));
    this.at.forEach(([x, y], s) => {
      this.heat.push(el("rect", { x, y, width: 1, height: 1, class: "heat", "fill-opacity": 0 }));
      this.svg.append(this.heat[s]);
      if (map.reset[s] === "1") {
        const hole = pit(x, y, "unknown"), cross = el("path", { d: `M${x + 0.38} ${y + 0.38}l.24 .24m0-.24l-.24 .24`, class: "cross", visibility: "hidden" });
        this.svg.append(hole, cross);
        this.pits[s] = hole, this.crosses[s] = cross;
        return;
      }
      if (map.feasible[s] === "0") this.svg.append(hatched(this.svg, x, y));
      if (map.ends[s] === "1") this.svg.append(el("rect", { x: x + 0.06, y: y + 0.06, width: 0.88, height: 0.88, class: "stuck" }));
      map.actions.forEach((action, a) => {
        const points = directions ? WEDGES[action].split(" ").map((p) => p.split(",").map(Number)).map(([u, v]) => `${x + u},${y + v}`).join(" ") : null;
        const across = Math.min(A, 5), gap = 0.8 / across;
        const shape = points ? el("polygon", { points }) : el("circle", { cx: x + 0.1 + gap * ((a % across) + 0.5), cy: y + 0.32 + 0.2 * Math.floor(a / across), r: Math.min(0.08, gap * 0.42) });
        shape.setAttribute("class", "w");
        this.wedges[s * A + a] = shape;
        this.svg.append(shape);
      });
      if (map.real && map.pay[s] > 0) this.svg.append(goal(x, y, map.pay[s]));
      if (map.start[s] === "1" || (map.real && map.restart[s] === "1")) this.svg.append(home(x, y, map.start[s] === "0"));
    });
    this.trail = el("polyline", { class: "trail" });
    this.agent = el("circle", { r: 0.2, class: "agent", visibility: "hidden" });
    this.ring = el("circle", { r: 0.3, class: "ring" });
    this.svg.append(this.trail, this.ring, this.agent);
    this.shown = 0, this.k = -1;
  }
  // The actions that the player has not ruled out, its policy, and its visits.
  learn(now) {
    const { map } = this, A = map.actions.length;
    if (!now || !now.visits) return;
    const most = Math.log1p(Math.max(1, ...now.visits));
    now.visits.forEach((n, s) => this.heat[s].setAttribute("fill-opacity", ((0.5 * Math.log1p(n)) / most).toFixed(2)));
    this.wedges.forEach((shape, i) => {
      const s = Math.floor(i / A), kept = now.possible[i] === "1";
      const kind = "w" + (kept ? (map.safe[i] === "1" ? " ok" : " risk") : "") + (now.policy && now.policy[s] === i % A ? " go" : "");
      if (shape.getAttribute("class") !== kind) shape.setAttribute("class", kind);
    });
    this.pits.forEach((hole, s) => {
      const known = now.known[s] === "1";
      hole.setAttribute("class", known ? "pit-hole" : "pit-hole unknown");
      this.crosses[s].setAttribute("visibility", known ? "visible" : "hidden");
    });
  }
  place(s) { return [this.at[s][0] + 0.5, this.at[s][1] + 0.5]; }
  // Walk an episode: step by step if there is time, otherwise as a trail.
  walk(last, seconds) {
    if (!last || !last.path.length || last.k === this.k) return;
    this.k = last.k;
    cancelAnimationFrame(this.shown);
    const points = last.path.map((s) => this.place(s)), n = points.length - 1;
    const draw = (t) => {
      const i = Math.min(Math.floor(t), n), f = Math.min(t - i, 1), from = points[i], to = points[Math.min(i + 1, n)];
      const here = [from[0] + (to[0] - from[0]) * f, from[1] + (to[1] - from[1]) * f];
      this.trail.setAttribute("points", [...points.slice(0, i + 1), here].map((p) => p.join(",")).join(" "));
      this.agent.setAttribute("cx", here[0]), this.agent.setAttribute("cy", here[1]);
      this.agent.setAttribute("visibility", "visible");
      this.agent.setAttribute("class", last.reset && t >= n ? "agent fell" : "agent");
      if (last.reset && t >= n) this.flash(points[n]);
    };
    if (seconds < 0.2 || matchMedia("(prefers-reduced-motion: reduce)").matches) return draw(n);
    const began = performance.now();
    const next = () => {
      const t = ((performance.now() - began) / 1000 / seconds) * n;
      draw(Math.min(t, n));
      if (t < n) this.shown = requestAnimationFrame(next);
    };
    next();
  }
  flash([x, y]) {
    this.ring.setAttribute("cx", x), this.ring.setAttribute("cy", y);
    this.ring.classList.remove("on");
    void this.ring.getBoundingClientRect();
    this.ring.classList.add("on");
  }
}

// A small chart: lines [{x, y, kind}] with kinds of studio.css; gaps where there is no number.
export function chart(svg, lines, log) {
  const W = 340, H = 170, L = 46, R = 8, T = 8, B = 20;
  svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
  const xs = lines.flatMap((line) => line.x), ys = lines.flatMap((line) => line.y.filter((y) => y !== null));
  svg.replaceChildren();
  if (!xs.length || !ys.length) return svg.append(el("text", { x: W / 2, y: H / 2, "text-anchor": "middle" }, "nothing to show yet"));
  const bend = log ? (x) => Math.log10(Math.max(x, 1)) : (x) => x;
  const x1 = Math.max(...xs), low = Math.min(0, ...ys), high = Math.max(...ys, low + (Math.max(...ys) > low ? 0 : 1)), right = bend(x1) || 1;
  const X = (x) => L + ((W - L - R) * bend(x)) / right, Y = (y) => H - B - ((H - B - T) * (y - low)) / (high - low);
  for (const [y, words] of [[low, -low < 0.01 * high ? "0" : short(low)], [high, short(high)], ...(Math.min(-low, high) > 0.08 * (high - low) ? [[0, "0"]] : [])]) {
    svg.append(el("line", { x1: L, x2: W - R, y1: Y(y), y2: Y(y), class: "axis" }), el("text", { x: L - 4, y: Y(y) + 4, "text-anchor": "end" }, words));
  }
  svg.append(el("text", { x: L, y: H - 6 }, log ? "1" : "0"), el("text", { x: W - R, y: H - 6, "text-anchor": "end" }, episodes(x1)));
  for (const line of lines) {
    let d = "", pen = "M";
    line.x.forEach((x, i) => {
      if (line.y[i] === null) return (pen = "M");
      d += `${pen}${X(x).toFixed(1)} ${Y(line.y[i]).toFixed(1)}`;
      pen = "L";
    });
    svg.append(el("path", { d, class: line.kind }));
  }
}
