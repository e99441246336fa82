// The grid editor: paint cells, and let the server check at once whether Assumption 1 holds.
import { post } from "./api.js";
import { el, goal, hatch, hatched, home, pit, tag } from "./draw.js";

const $ = (id) => document.getElementById(id);
const SHOWN = { ".": ["Free", "var(--floor)", ""], "#": ["Wall", "var(--wall)", ""], X: ["Pit", "var(--pit)", ""], G: ["Goal, pays 1", "var(--yellow)", "1"], g: ["Goal, pays 0.3", "var(--yellow)", "·"], S: ["Start", "var(--blue)", "S"], R: ["Restart", "var(--soft)", "R"] };

export class Editor {
  constructor(catalogue) {
    this.limits = catalogue.limits, this.templates = catalogue.templates;
    this.brush = "X", this.cells = [[]], this.found = null, this.checks = 0;
    for (const [symbol, [words, colour, letter]] of Object.entries(SHOWN)) {
      const swatch = tag("i", {}, letter);
      swatch.style.background = colour;
      $("brushes").append(tag("label", {}, tag("input", { type: "radio", name: "brush", value: symbol, checked: symbol === this.brush, onchange: () => (this.brush = symbol) }), swatch, words));
    }
    for (const name of Object.keys(this.templates)) $("template").append(tag("option", { value: name }, catalogue.breaking.includes(name) ? `${name} (breaks Assumption 1 on purpose)` : name));
    $("template").addEventListener("change", () => this.load(this.templates[$("template").value]));
    for (const id of ["rows", "cols"]) $(id).addEventListener("change", () => this.resize());
    $("slip").addEventListener("input", () => this.changed());
    for (const id of ["horizon", "stay", "closed", "help"]) $(id).addEventListener("change", () => this.changed());
    this.past = [], this.future = [];
    $("undo").addEventListener("click", () => this.travel(this.past, this.future));
    $("redo").addEventListener("click", () => this.travel(this.future, this.past));
    $("clear").addEventListener("click", () => this.load({ ...this.grid, closed: false, rows: this.cells.map((row) => row.map((symbol) => ("XGgR#".includes(symbol) ? "." : symbol)).join("")) }));
    $("share").addEventListener("click", () => this.share());
    addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z" || $("setup").hidden || event.target.closest("input:not([type=range], [type=checkbox], [type=radio]), textarea")) return;
      event.preventDefault();
      event.shiftKey ? this.travel(this.future, this.past) : this.travel(this.past, this.future);
    });
    this.load(this.kept() || Object.values(this.templates)[0]);
  }
  // Back to the newest grid of one pile; the present one goes to the other.
  travel(from, to) {
    if (!from.length) return;
    to.push(JSON.stringify(this.grid));
    this.travelling = true;
    this.load(JSON.parse(from.pop()));
    this.travelling = false;
    this.buttons();
  }
  remember() {
    const now = JSON.stringify(this.grid);
    if (this.shown && this.shown !== now && !this.travelling) {
      this.past.push(this.shown);
      this.past.splice(0, this.past.length - 200);
      this.future = [];
    }
    this.shown = now;
    this.buttons();
  }
  buttons() { $("undo").disabled = !this.past.length, $("redo").disabled = !this.future.length; }
  kept() {
    try { return JSON.parse(localStorage.getItem("grid")); } catch { return null; }
  }
  get grid() {
    return { rows: this.cells.map((row) => row.join("")), slip: Number($("slip").value), horizon: Number($("horizon").value), stay: $("stay").checked, closed: $("closed").checked, ...($("help").value === "" ? {} : { help: Number($("help").value) }) };
  }
  // The address that holds the drawing, and no token.
  get link() {
    const { rows, stay, closed, ...numbers } = this.grid;
    return `${location.origin}${location.pathname}#${new URLSearchParams({ grid: rows.join("/"), ...numbers, ...(stay ? { stay } : {}), ...(closed ? { closed } : {}) })}`;
  }
  async share() {
    history.replaceState(null, "", this.link);
    const copied = await navigator.clipboard?.writeText(this.link).then(() => true, () => false); // not every browser lets a page copy
    $("share").textContent = copied ? "Copied" : "It is in the address bar";
    setTimeout(() => ($("share").textContent = "Copy link"), 2000);
  }
  // Load the drawing of such an address.
  open(words) {
    const rows = words.get("grid").split("/"), most = this.limits.grid, value = (name, usual) => (Number.isFinite(parseFloat(words.get(name))) ? Number(words.get(name)) : usual);
    if (rows.length > most || rows.some((row) => !row.length || row.length > most || row.length !== rows[0].length || [...row].some((symbol) => !SHOWN[symbol]))) throw new Error(`A link to a drawing holds 1 to ${most} rows of equal length, of at most ${most} of the cells ${Object.keys(SHOWN).join(" ")}. This one does not: the grid stays as it was.`);
    this.load({ rows, slip: value("slip", 0.1), horizon: value("horizon", 12), stay: words.has("stay"), closed: words.has("closed"), help: value("help", null) });
  }
  load(field) {
    const rows = Array.isArray(field.rows) ? field.rows : field.rows.split("/");
    this.cells = rows.map((row) => [...row]);
    $("rows").value = rows.length, $("cols").value = rows[0].length;
    $("slip").value = field.slip, $("horizon").value = field.horizon;
    $("stay").checked = Boolean(field.stay), $("closed").checked = Boolean(field.closed), $("help").value = field.help ?? "";
    if (field.stay || field.closed || field.help != null) $("more").open = true; // what is set is seen
    this.build();
  }
  resize() {
    const most = this.limits.grid, wanted = ["rows", "cols"].map((id) => Math.round(Number($(id).value)));
    const [n, m] = wanted.map((size, i) => (size >= 1 && size <= most ? size : [this.cells.length, this.cells[0].length][i]));
    $("size-trouble").hidden = n === wanted[0] && m === wanted[1];
    $("size-trouble").textContent = `A grid has 1 to ${most} rows and columns. Got ${$("rows").value || "none"} x ${$("cols").value || "none"}: it stays ${n} x ${m}.`;
    $("rows").value = n, $("cols").value = m;
    this.cells = Array.from({ length: n }, (_, r) => Array.from({ length: m }, (_, c) => this.cells[r]?.[c] ?? "."));
    this.build();
  }
  build() {
    const n = this.cells.length, m = this.cells[0].length;
    this.svg = el("svg", { viewBox: `-0.05 -0.05 ${m + 0.1} ${n + 0.1}`, class: "field editable", id: "editor", tabindex: 0, role: "application", "aria-label": "Grid. Arrow keys move, Enter paints with the brush." }, hatch());
    this.squares = el("g"), this.marks = el("g", { "pointer-events": "none" });
    this.cursor = [0, 0];
    this.svg.append(this.squares, this.marks);
    this.cells.forEach((row, r) => row.forEach((_, c) => this.squares.append(el("rect", { x: c, y: r, width: 1, height: 1, class: "cell", "data-r": r, "data-c": c }))));
    let painting = false;
    const paint = (event) => {
      const cell = document.elementFromPoint(event.clientX, event.clientY)?.dataset;
      if (cell?.r !== undefined) this.paint(Number(cell.r), Number(cell.c));
    };
    this.svg.addEventListener("pointerdown", (event) => { painting = true; event.preventDefault(); this.svg.focus({ preventScroll: true }); paint(event); });
    this.svg.addEventListener("pointermove", (event) => painting && paint(event));
    for (const name of ["pointerup", "pointerleave", "pointercancel"]) this.svg.addEventListener(name, () => (painting = false));
    this.svg.addEventListener("keydown", (event) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (move) this.cursor = [Math.min(Math.max(this.cursor[0] + move[0], 0), n - 1), Math.min(Math.max(this.cursor[1] + move[1], 0), m - 1)];
      else if (event.key === "Enter" || event.key === " ") this.paint(...this.cursor);
      else return;
      event.preventDefault();
      this.redraw();
    });
    $("editor-place").replaceChildren(this.svg);
    this.changed();
  }
  paint(r, c) {
    if (this.cells[r][c] === this.brush) return;
    this.cells[r][c] = this.brush;
    $("closed").checked = false; // another grid: what was closed is not this one
    this.changed();
  }
  changed() {
    $("slip-shown").textContent = Number($("slip").value).toFixed(2);
    this.found = null;
    this.redraw();
    localStorage.setItem("grid", JSON.stringify(this.grid));
    if (location.hash.startsWith("#grid=") && location.href !== this.link) history.replaceState(null, "", "#new"); // a reload keeps what was changed since
    this.remember();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), 120);
  }
  redraw() {
    const m = this.cells[0].length, marks = [], found = this.found;
    this.cells.forEach((row, r) => row.forEach((symbol, c) => {
      this.squares.children[r * m + c].setAttribute("class", symbol === "#" ? "cell wall" : "cell");
      if (symbol === "X") marks.push(pit(c, r));
      if (symbol === "G" || symbol === "g") marks.push(goal(c, r, symbol === "G" ? 1 : 0.3));
      if (symbol === "S" || symbol === "R") marks.push(home(c, r, symbol === "R"));
    }));
    const square = (kind, inset) => (cell) => marks.push(el("rect", { x: (cell % m) + inset, y: Math.floor(cell / m) + inset, width: 1 - 2 * inset, height: 1 - 2 * inset, rx: inset, class: kind, "data-cell": cell }));
    if (found) {
      found.hopeless.forEach((cell) => marks.push(hatched(this.svg, cell % m, Math.floor(cell / m))));
      if (found.closed) found.stuck.forEach(square("stuck", 0.06));
      found.breaking.forEach(square("breaking", 0.08));
      if (found.path.length > 1) marks.push(el("polyline", { class: "way", points: found.path.map((cell) => `${(cell % m) + 0.5},${Math.floor(cell / m) + 0.5}`).join(" ") }));
    }
    if (document.activeElement === this.svg) square("home re", 0.03)(this.cursor[0] * m + this.cursor[1]);
    this.marks.replaceChildren(...marks);
  }
  async check() {
    const number = ++this.checks, box = $("verdict");
    try {
      const found = await post("/api/check", this.grid);
      if (number !== this.checks) return; // another answer is on its way
      this.found = found;
      const words = found.holds ? `Assumption 1 holds${found.closed && found.stuck.length ? ", now that the grid is closed" : ""}.` : `Assumption 1 is broken at ${found.breaking.length} cell${found.breaking.length === 1 ? "" : "s"}.`;
      box.className = "verdict " + (found.holds ? "good" : "bad");
      box.replaceChildren(tag("p", {}, tag("strong", {}, words + " "), found.sentence));
      if (!found.holds && found.closable) box.append(tag("button", { type: "button", id: "close-grid", onclick: () => { $("closed").checked = true; this.changed(); } }, `Close the grid: ending an episode there is a reset${found.lost_starts ? `, and ${found.lost_starts} start${found.lost_starts === 1 ? "" : "s"} fall away` : ""}`));
      if (!found.holds && !found.closable) box.append(tag("p", {}, found.why_not));
    } catch (error) {
      if (number !== this.checks) return;
      this.found = null;
      box.className = "verdict bad";
      box.replaceChildren(tag("p", {}, error.message));
    }
    this.redraw();
  }
}
