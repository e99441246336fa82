// A game that is watched: maps, numbers, curves, requests, certificates, and the buttons that steer it.
import { download, get, post, watch } from "./api.js";
import { Camera } from "./camera.js";
import { chart, el, episodes, Field, help, MACHINES, number, spelt, tag } from "./draw.js";
import { Past } from "./past.js";

const $ = (id) => document.getElementById(id);
const SPEEDS = [0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 1000, 3000, 0];
const WORDS = { starting: "starting", running: "learning", paused: "paused", waiting: "waiting for a reset", done: "finished", stopped: "stopped, saved", failed: "failed", following: "another program is writing it", interrupted: "interrupted", file: "finished" };
const MULTIPLIER = "Multiplier λ";
const CHARTS = [
  ["Resets", "realised; dashed: expected (exact); dotted: certified bound on these, 95 %; faint: predicted by the player", (c) => [["realised", ""], ["expected", " thin"], ["upper", " dot"], ["predicted", " faint"]].map(([key, kind]) => [c.k, c[key], kind])],
  ["Regret", "against the best policy that is never reset; below zero it was bought with resets", (c) => [[c.k, c.regret, ""]]],
  [MULTIPLIER, "what the dual player charges for a reset", (c) => [[c.k, c.lam, ""]]],
  ["Pairs kept", "pairs of state and first action that the player has not ruled out (or plays); dashed: truly safe", (c, lane) => [[c.k, c.pairs, ""], ...(lane.map ? [[[c.k[0], c.k.at(-1)], [lane.map.safe_pairs, lane.map.safe_pairs], " thin"]] : [])]],
];
// Of runs in real time or with delay: shown beside the others where there are any.
const CLOCK_CHARTS = [
  ["Age of plans", "rounds that were over and that the plan of an episode did not rest on yet; 0 in a world that waits", (c) => (c.age ? [[c.k, c.age, ""]] : [])],
  ["Deadlines missed", "ticks that passed without a command of their own, so far; dashed: resets so far", (c) => (c.missed ? [[c.k, c.missed, ""], [c.k, c.realised, " thin"]] : [])],
  ["Lateness", "milliseconds after its tick, the latest command of each episode", (c) => (c.late ? [[c.k, c.late, ""]] : [])],
];
const CLOCK_TILES = [["age", "age of the plan, rounds"], ["rate", "steps per second"], ["missed", "deadlines missed"], ["latest", "latest command, ms"]];
const clocked = (shown, specs) => (specs.some((spec) => spec.timing?.rate) ? shown : specs.some((spec) => spec.timing) ? shown.slice(0, 1) : []);
// Words of a chart's title or of a tile that are explained.
const EXPLAINED = { [MULTIPLIER]: "multiplier", lam: "multiplier", expected: "certified" };
const LATELY = 100; // episodes of the newest mean reward, as the server has it
const RISES = 3000; // milliseconds after which a game without user input goes twice as fast
// Of runs without an oracle: what can be known of them.
const MACHINE_CHARTS = [
  ["Reward per episode", "mean of the episodes between two points", (c, lane) => (lane.oracle ? [] : [[c.k, c.reward, ""]])],
  ["Steps since the last reset", "at the end of an episode, of those that are drawn", (c, lane) => (lane.oracle ? [] : [[c.k, c.lived, ""]])],
];
const MACHINE_TILES = [["k", "episode"], ["realised", "resets so far"], ["reward", "reward per episode"], ["lived", "steps since the last reset"], ["lam", "multiplier λ"]];
const TILES = [["k", "episode"], ["realised", "resets so far"], ["expected", "expected resets"], ["regret", "regret"], ["lam", "multiplier λ"]];

export class Stage {
  constructor(name, trouble) {
    this.name = name, this.trouble = trouble, this.scene = null, this.frame = null, this.curves = [], this.requested = "", this.lanes = [];
    this.past = new Past(this);
    $("stage").classList.add("empty"); // until it is known what there is to show
    this.end = watch(name, (kind, data) => this.receive(kind, data));
    this.timer = setInterval(() => this.certify(), 4000);
    this.rising = sessionStorage.getItem("started") === name;
    this.riser = setInterval(() => this.rise(), RISES);
  }
  close() {
    this.end();
    for (const { camera } of this.lanes) camera.stop();
    clearInterval(this.timer);
    clearInterval(this.riser);
  }
  // A new game begins slowly, so that each step can be seen, and speeds up by itself until the user touches the controls.
  rise() {
    const { frame } = this, next = Number($("speed").value) + 1;
    if (!this.rising || !frame?.live || !this.active || frame.paused || !frame.pace || document.hidden || next >= SPEEDS.length) return;
    $("speed").value = next;
    this.speedWords();
    this.control("speed", { pace: SPEEDS[next] });
  }
  steered() {
    this.rising = false;
    sessionStorage.removeItem("started");
  }
  receive(kind, data) {
    if (kind === "trouble") {
      if (!this.frame) document.querySelector(".transport").hidden = true; // there is nothing that they could act on
      this.lost = true;
      return this.trouble(data.error);
    }
    document.querySelector(".transport").hidden = false;
    if (this.lost) this.trouble("");
    this.lost = false; // why a button did nothing stays until the next one does something
    if (kind === "scene") this.build(data);
    if (kind === "frame") this.show(data);
  }
  build(scene) {
    this.scene = scene, this.requested = "", this.curves = [], this.frame = null;
    $("stage").classList.remove("empty");
    this.past = new Past(this);
    const spec = scene.lanes[0].spec;
    const problem = spec.problem.startsWith("drawn") ? "Your grid" : spec.problem.replace(/^gym:/, "");
    $("stage-title").replaceChildren(`${problem}: ${scene.lanes.map((lane) => lane.spec.primal.name).join(" and ")}`, tag("small", { class: "soft" }, scene.name));
    this.lanes = scene.lanes.map((lane, i) => {
      const { spec } = lane, field = lane.map ? new Field(lane.map, "ab"[i]) : null;
      const keys = [...(lane.oracle ? TILES : MACHINE_TILES), ...(spec.after_goal == null ? [] : [["goals", "goals reached; none is a reset"]]), ...(spec.ask ? [["asked", "resets requested when stuck"]] : []), ...clocked(CLOCK_TILES, [spec])];
      const tiles = Object.fromEntries(keys.map(([key, words]) => [key, tag("div", { class: "tile" }, tag("b", {}, "–"), ...(EXPLAINED[key] ? [help(EXPLAINED[key])] : []), tag("span", {}, words))]));
      const badge = tag("span", { class: "badge" }), bar = tag("i"), wrong = tag("p", { class: "alert", hidden: true }), note = tag("p", { class: "soft" }), camera = new Camera(), seen = tag("img", { class: "live", alt: `${spec.problem}, now` }), push = tag("input", { type: "range", min: -1, max: 1, step: 0.05, value: 0 }), view = tag("figure", { class: "view", hidden: true }, seen, tag("label", { class: "push" }, tag("span", {}, `Push ${MACHINES[spec.problem]?.[2] ?? "it"}`), push));
      push.addEventListener("input", () => this.control("push", { push: Number(push.value) }));
      for (const end of ["pointerup", "pointercancel", "keyup", "blur"]) push.addEventListener(end, () => { if (push.value !== "0") { push.value = 0; this.control("push", { push: 0 }); } });
      const why = spec.statements.primal, most = why.most_resets;
      const proved = tag("div", { class: "badges" },
        tag("span", { class: most == null ? "badge" : "badge good" }, most == null ? "resets: no bound proved" : "resets: bounded on every path, proved"),
        tag("span", { class: why.covered ? "badge good" : "badge" }, why.covered ? "regret: a theorem covers it" : "regret: tuned, no theorem"));
      const box = tag("article", { class: "lane " + "ab"[i], "aria-label": `${spec.primal.name} against ${spec.dual.name}` },
        tag("h3", {}, tag("span", {}, spec.primal.name, " ", help("primal")), tag("em", {}, `against ${spec.dual.name} `, help("dual")), badge), proved,
        tag("div", { class: "tiles" }, ...Object.values(tiles)), tag("div", { class: "bar" }, bar), wrong,
        view, field ? field.svg : tag("p", { class: "soft none" }, lane.oracle ? "This problem has too many states for a map." : `No map: ${lane.why}. With --film N a run keeps pictures, which are shown here.`), camera.figure, note,
        tag("details", {}, tag("summary", {}, "Guarantees and settings"), tag("p", { class: "soft" }, `Primal player: ${why.why}.`), tag("p", { class: "soft" }, `Dual player: ${spec.statements.dual.why}.`), tag("p", { class: "soft" }, `${spec.problem} ${JSON.stringify(spec.problem_options)}; ${episodes(spec.episodes)}, seed ${spec.seed}, feedback ${spec.feedback}${spec.B === null ? "" : `, B = ${number(spec.B)} (${spec.B_source})`}.${spec.chosen ? ` Chosen because ${spec.chosen}.` : ""}`), tag("p", { class: "soft" }, `primal ${JSON.stringify(spec.primal.settings)}; dual ${JSON.stringify(spec.dual.settings)}`)));
      return { ...lane, field, tiles, badge, bar, box, wrong, note, camera, view, seen, pictures: "" };
    });
    $("lanes").replaceChildren(...this.lanes.map((lane) => lane.box));
    $("legend").hidden = !this.lanes.some((lane) => lane.field);
    this.drawn = [CHARTS[0], ...MACHINE_CHARTS, ...CHARTS.slice(1), ...clocked(CLOCK_CHARTS, this.lanes.map((lane) => lane.spec))];
    const oracle = this.lanes.some((lane) => lane.oracle);
    this.charts = this.drawn.map(([title, all]) => {
      const words = oracle ? all : all.replace(" dashed: expected (exact);", "").replace("bound on these", "bound on the expected ones");
      const svg = el("svg", { class: "chart", role: "img", "aria-label": title });
      return [svg, tag("figure", {}, tag("figcaption", {}, tag("strong", {}, `${title} `), ...(EXPLAINED[title] ? [help(EXPLAINED[title]), " "] : []), words), svg)];
    });
    $("charts").replaceChildren(...this.charts.map(([, figure]) => figure));
    $("get-files").replaceChildren(...scene.files.map((file, i) => tag("button", { type: "button", class: "get-file", onclick: () => this.fetch(`/api/file?name=${encodeURIComponent(file)}`, `${file}.rfrun`) }, scene.files.length > 1 ? ["Run file, left", "Run file, right"][i] : "Run file")));
    $("certificates").replaceChildren();
    $("certified-at").textContent = "";
    document.title = `${scene.name} · ${spec.problem}`;
  }
  show(frame) {
    const before = this.frame;
    this.frame = frame;
    const active = frame.lanes.some((lane) => ["starting", "running", "paused", "waiting"].includes(lane.state)) && frame.live;
    for (const id of ["pause", "step", "stop"]) $(id).hidden = !active;
    document.querySelector(".speed").hidden = !active;
    for (const id of ["again", "edit"]) $(id).hidden = active || !frame.lanes.every((lane) => ["done", "stopped", "interrupted", "file", "failed"].includes(lane.state));
    const { spec, resumes, again } = this.scene.lanes[0];
    if (!spec.problem.startsWith("drawn")) $("edit").hidden = true;
    if (!again) $("again").hidden = true; // it is played by the command line
    this.result(frame, active);
    for (const id of ["get-report", "get-files"]) $(id).hidden = !frame.lanes.every((lane) => lane.k > 0);
    this.past.follow(frame);
    $("get-film").hidden = !(this.lanes.every((lane) => lane.map?.real) || (this.lanes.length === 1 && frame.lanes[0].pictures)) || !frame.lanes.every((lane) => lane.k > 0);
    $("resume").hidden = active || !resumes || !frame.lanes.some((lane) => ["stopped", "interrupted"].includes(lane.state));
    $("pause").textContent = frame.paused ? "Play" : "Pause";
    const speed = SPEEDS.indexOf(SPEEDS.find((x) => x && x >= frame.pace && frame.pace) ?? 0);
    if (document.activeElement !== $("speed")) $("speed").value = frame.pace ? speed : SPEEDS.length - 1;
    this.speedWords();
    frame.lanes.forEach((now, i) => this.lane(this.lanes[i], now, before?.lanes[i], i));
    this.requests(frame.lanes);
    if (frame.lanes.some((lane) => lane.curves)) {
      this.curves = frame.lanes.map((lane, i) => lane.curves || this.curves[i]);
      this.plot();
    }
    if (!$("certified-at").textContent && frame.lanes.some((lane) => lane.k > 0)) this.certify();
    if (before && active !== this.active) setTimeout(() => this.certify(true), 300);
    this.active = active;
  }
  // One sentence about each lane when the game is over.
  result(frame, active) {
    const over = !active && frame.lanes.every((lane) => lane.now && lane.k > 0 && lane.state !== "following");
    $("result").hidden = !over;
    if (!over) return;
    const say = ({ k, now }) => {
      const count = now.realised === 0 ? "no reset" : `${now.realised.toLocaleString("en")} reset${now.realised === 1 ? "" : "s"}`;
      const newest = `episode ${now.newest_reset.toLocaleString("en")}`, since = !now.realised ? "" : now.newest_reset <= 0.9 * k ? `; none since ${newest}` : `; the last in ${newest}`;
      return `${count} in ${episodes(k)}${since}`;
    };
    $("result").replaceChildren(...frame.lanes.map((lane, i) => tag("span", { class: "ab"[i] }, tag("i"), `${this.scene.lanes[i].spec.primal.name}: ${say(lane)}.`)));
  }
  lane(place, now, before, i) {
    place.badge.className = "badge " + now.state;
    place.badge.textContent = WORDS[now.state] + (now.state === "running" && now.rate ? ` · ${number(now.rate)} per s` : "");
    place.wrong.hidden = !now.error && !now.stuck, place.wrong.textContent = now.error || now.stuck;
    place.bar.style.width = `${(100 * now.k) / place.spec.episodes}%`;
    const values = { k: now.k, ...now.now };
    for (const key of Object.keys(place.tiles)) place.tiles[key].firstChild.textContent = key === "k" ? now.k.toLocaleString("en") : number(values[key]);
    if (place.tiles.missed && now.now?.in_time != null) place.tiles.missed.lastChild.textContent = `deadlines missed; ${Number(now.now.in_time.toPrecision(5))} % in time`;
    if (now.now && place.tiles.expected) place.tiles.expected.lastChild.textContent = `expected resets; certified ≤ ${number(now.now.upper)}, slack ${now.now.expected === null ? "–" : number(now.now.upper - now.now.expected)}`;
    if (now.now && !place.oracle) place.tiles.realised.lastChild.textContent = `resets so far; expected ≤ ${number(now.now.upper)}, 95 %${now.now.predicted === null ? "" : `, predicted ${number(now.now.predicted)}`}`;
    if (place.tiles.reward) place.tiles.reward.lastChild.textContent = now.k > LATELY ? `reward per episode, the last ${LATELY}` : "reward per episode";
    if (before?.now && now.now && now.now.realised > before.now.realised) {
      place.tiles.realised.classList.remove("hit");
      void place.tiles.realised.offsetWidth;
      place.tiles.realised.classList.add("hit");
    }
    place.view.hidden = !now.view || !this.frame.live || !["running", "paused"].includes(now.state);
    if (!place.view.hidden) place.seen.src = now.view;
    if (now.now?.pushed) place.note.textContent = `Pushed by hand in ${episodes(now.now.pushed)}; the run file says in which, and how far.`;
    if (now.pictures && now.pictures !== place.pictures) this.look(place, now.pictures, i);
    if (place.field && now.map) place.field.learn(now.map);
    if (place.field && now.map && this.past.k === null) {
      place.field.walk(now.last, this.frame.live && this.frame.pace && this.frame.pace <= 4 ? 0.85 / this.frame.pace : this.frame.paused && this.frame.live ? 0.6 : 0);
      const kept = now.now.pairs;
      place.note.textContent = kept === null ? "" : `${kept} of ${place.map.pairs} pairs of state and action ${now.map.kind}; ${place.map.safe_pairs} are truly safe.`;
    }
  }
  async look(place, stamp, i) {
    place.pictures = stamp;
    try {
      place.camera.load((await get(`/api/pictures?name=${encodeURIComponent(this.name)}`)).lanes[i]);
    } catch (error) {
      this.trouble(error.message);
    }
  }
  plot() {
    const log = $("log").checked;
    this.past.plot(this.curves);
    this.charts.forEach(([svg, figure], j) => {
      const lines = this.curves.flatMap((c, i) => (c && c.k.length ? this.drawn[j][2](c, this.scene.lanes[i]).map(([x, y, kind]) => ({ x, y, kind: "ab"[i] + kind })) : []));
      const drawn = lines.filter((line) => !line.kind.endsWith(" thin")), flat = this.drawn[j][0] === MULTIPLIER && drawn.every((line) => line.y.every((y) => y === line.y[0]));
      figure.hidden = flat || !drawn.some((line) => line.y.filter((y) => y !== null).length > 1); // a panel without a line says nothing, and a price that never changes is in its tile
      if (!figure.hidden) chart(svg, lines, log);
    });
    $("results").hidden = this.charts.every(([, figure]) => figure.hidden);
  }
  requests(lanes) {
    const requested = lanes.map((lane) => lane.request?.id || "").join();
    if (requested === this.requested) return;
    this.requested = requested;
    $("requests").replaceChildren(...lanes.flatMap((lane, i) => (lane.request ? [this.request(lane.request, i)] : [])));
  }
  request(request, lane) {
    const who = tag("input", { name: "who", maxlength: 100, value: localStorage.getItem("who") || "" }), note = tag("input", { name: "note", maxlength: 500 });
    const answer = (stop) => {
      localStorage.setItem("who", who.value);
      this.act(post("/api/answer", { name: this.name, lane, id: request.id, who: who.value, note: note.value, ...(stop ? { stop: true } : {}) }));
    };
    return tag("div", { class: "request " + "ab"[lane], role: "alert" }, tag("p", {}, request.sentence), tag("form", { onsubmit: (event) => { event.preventDefault(); answer(false); } }, tag("label", {}, "Who", who), tag("label", {}, "Note", note), tag("button", { class: "main", type: "submit" }, "The reset is performed"), tag("button", { type: "button", onclick: () => answer(true) }, "Stop the run")));
  }
  async certify(now = false) {
    if (this.certifying || (document.hidden && !now) || !this.frame || (this.slow > 1.5 && !now && this.active)) return;
    this.certifying = true;
    try {
      const found = await get(`/api/certificates?name=${encodeURIComponent(this.name)}`);
      this.slow = found.seconds;
      if (this.scene) $("certificates").replaceChildren(...found.lanes.map((lane, i) => this.claims(lane, i)));
      $("certified-at").textContent = `checked on the saved run, after ${[...new Set(found.lanes.map((lane) => episodes(lane.k)))].join(" and ")}`;
    } catch (error) {
      $("certified-at").textContent = error.message;
    } finally {
      this.certifying = false;
    }
  }
  claims(lane, i) {
    const must = ["proved", "checked", "identity"], order = { proved: 0, tuned: 1, checked: 2, identity: 3, stated: 4 }, applicable = lane.claims.filter((claim) => claim.status !== "not applicable");
    const proved = applicable.filter((claim) => claim.status === "proved"), held = proved.filter((claim) => claim.holds).length;
    const row = (claim) => {
      if (claim.status === "stated") return tag("li", {}, tag("span", { class: "badge" }, "stated"), ` ${spelt(claim.claim)}: from ${number(claim.lhs)} to ${number(claim.rhs)}; `, tag("span", { class: "why" }, spelt(claim.why)));
      const bar = tag("i"), share = claim.rhs > 0 ? Math.min(Math.max(claim.lhs / claim.rhs, 0), 1) : claim.holds ? 0 : 1;
      bar.style.width = `${100 * share}%`;
      const badge = claim.holds ? (["proved", "tuned"].includes(claim.status) ? "good" : "") : must.includes(claim.status) ? "bad" : "missed";
      return tag("li", {}, tag("span", { class: `badge ${badge}` }, `${claim.status}, ${claim.holds ? "holds" : badge === "bad" ? "fails" : "not met"}`), ` ${spelt(claim.claim)}`, tag("div", { class: "bar" }, bar), tag("span", { class: "why" }, `${number(claim.lhs)} ${claim.kind === "==" ? "=" : "≤"} ${number(claim.rhs)}, slack ${number(claim.slack)}${claim.detail?.vacuous ? "; vacuous: true of every run" : ""}${claim.why ? `; ${spelt(claim.why)}` : ""}`, " ", help("slack")));
    };
    // First what fails, then what has slack to show; checks, identities and counts of nothing are folded away.
    const first = (claim) => claim.status === "stated" || !claim.holds || (claim.status === "proved" && claim.slack > 0 && claim.rhs > 0 && claim.lhs > 0);
    const sorted = [...applicable].sort((p, q) => (order[p.status] ?? 5) - (order[q.status] ?? 5) || p.holds - q.holds), open = this.unfolded?.[i];
    const rest = tag("details", { open: Boolean(open), ontoggle: (event) => ((this.unfolded ??= {})[i] = event.target.open) }, tag("summary", {}, `All ${applicable.length} claims about this run`), tag("ul", { class: "claims" }, ...sorted.filter((claim) => !first(claim)).map(row)));
    const count = (status, words) => {
      const some = applicable.filter((claim) => claim.status === status);
      return some.length ? `, ${some.filter((claim) => claim.holds).length} of ${some.length} ${words}` : "";
    };
    const refuted = applicable.some((claim) => must.includes(claim.status) && !claim.holds);
    const vacuous = proved.filter((claim) => claim.detail?.vacuous).length;
    const verdict = tag("span", { class: "badge " + (refuted ? "bad" : "good") }, `${proved.length ? `${held} of ${proved.length} proved claims hold` : "no claim is proved"}${vacuous ? ` (${vacuous} vacuous)` : ""}${count("checked", "checks")}${count("identity", "identities")}`);
    return tag("div", { class: "card " + "ab"[i] }, tag("h3", {}, this.scene.lanes[i].spec.primal.name, " ", verdict), ...(lane.why ? [tag("p", { class: "soft" }, lane.why)] : [tag("ul", { class: "claims" }, ...sorted.filter(first).map(row)), rest]));
  }
  speedWords() {
    const pace = SPEEDS[Number($("speed").value)];
    $("speed-shown").textContent = pace && pace <= 1 && this.frame?.lanes[0].view ? "real time" : pace ? `${pace.toLocaleString("en")} per second` : "no limit";
  }
  async act(promise) {
    try { await promise; this.trouble(""); } catch (error) { this.trouble(error.message); }
  }
  control(action, more = {}) { return this.act(post("/api/control", { name: this.name, action, ...more })); }
  fetch(path, name) { return this.act(download(path, name)); }
  pause() { if (!$("pause").hidden) { this.steered(); this.control(this.frame?.paused ? "go" : "pause"); } }
  step() { if (!$("step").hidden) { this.steered(); this.control("step"); } }
  speed() { this.steered(); this.speedWords(); this.control("speed", { pace: SPEEDS[Number($("speed").value)] }); }
  // The tab is opened at once, as browsers open none a while after a click; it loads the report as soon as that is made.
  report() {
    const tab = open("about:blank");
    if (!tab) return this.trouble("The browser did not open a tab: allow pop-ups for this page.");
    tab.opener = null;
    return this.act(post("/api/report", { name: this.name }).then(({ address }) => (tab.location = address), (error) => { tab.close(); throw error; }));
  }
  async film() {
    $("get-film").disabled = true;
    $("get-film").textContent = "Making the film…";
    await this.fetch(`/api/film?name=${encodeURIComponent(this.name)}`, `${this.name}.gif`);
    $("get-film").disabled = false;
    $("get-film").textContent = "Save as GIF";
  }
}
