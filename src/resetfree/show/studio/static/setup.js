// A new game: the world, the players with their discovered settings, and the start.
import { get, post } from "./api.js";
import { MACHINES, tag } from "./draw.js";
import { Editor } from "./editor.js";

const $ = (id) => document.getElementById(id);

// A field of a form for a setting; what is left as it was is not sent.
function field(setting) {
  const shown = setting.default === null ? "" : String(setting.default);
  let input;
  if (setting.choices || setting.kind === "bool") {
    const choices = (setting.choices || [true, false]).map(String);
    input = tag("select", {}, ...(setting.default === null || !choices.includes(shown) ? [tag("option", { value: "" }, shown || "by itself")] : []), ...choices.map((x) => tag("option", { value: x, selected: x === shown }, x)));
  } else {
    const number = setting.kind === "int" || setting.kind === "float";
    input = tag("input", { type: number && shown !== "inf" ? "number" : "text", step: setting.kind === "int" ? 1 : "any", placeholder: shown || "by itself", value: "" });
  }
  input.dataset.name = setting.name, input.dataset.kind = setting.kind, input.dataset.default = shown;
  return tag("label", {}, setting.name, input);
}
function values(place) {
  const result = {};
  for (const input of place.querySelectorAll("[data-name]")) {
    const { name, kind } = input.dataset, text = input.value.trim();
    if (text === "" || text === input.dataset.default) continue;
    result[name] = text === "true" || text === "false" ? text === "true" : (kind === "int" || kind === "float") && text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
  }
  return result;
}

function fill(place, given) {
  for (const input of place.querySelectorAll("[data-name]")) {
    const value = given[input.dataset.name];
    if (value !== undefined && value !== null && String(value) !== input.dataset.default) input.value = String(value);
  }
}

const PANELS = { draw: "draw", problem: "registered", machine: "machines" };
const EPISODES = { draw: "5000", problem: "5000", machine: "200" };

export class Setup {
  constructor(catalogue, started) {
    this.catalogue = catalogue;
    this.editor = new Editor(catalogue);
    this.kind = "draw";
    for (const kind of Object.keys(PANELS)) $(`tab-${kind}`).addEventListener("click", () => this.show(kind));
    for (const id of catalogue.machines) $("machine").append(tag("option", { value: id }, MACHINES[id][0]));
    $("machine").addEventListener("change", () => this.machine());
    this.machine();
    for (const id of Object.keys(catalogue.problems)) $("problem").append(tag("option", { value: id, selected: id === "grid-v0" }, id));
    $("problem").addEventListener("change", () => this.problem());
    for (const word of catalogue.feedback) $("feedback").append(tag("option", {}, word));
    $("episodes").max = catalogue.limits.episodes;
    this.lanes = catalogue.lanes.map((pair, i) => this.lane(i, ...pair));
    $("lanes-form").append(...this.lanes);
    $("versus").addEventListener("change", () => this.sides());
    $("players").addEventListener("submit", (event) => { event.preventDefault(); this.start(started); });
    this.problem();
    get("/api/playable").then((found) => { this.playable = found; this.offer(); }, () => {}); // until then all are offered
  }
  // Only players that can play the problem, the best of `auto` first; a choice that cannot becomes auto.
  offer() {
    if (!this.playable) return;
    const vectors = this.kind === "problem" && this.playable.continua.includes($("problem").value);
    const can = this.kind === "machine" ? [] : this.playable[vectors ? "vectors" : "finite"];
    for (const { parts } of this.lanes) {
      const [select] = parts.primal, options = new Map([...select.options].map((option) => [option.value, option]));
      for (const [name, option] of options) option.hidden = option.disabled = name !== "auto" && !can.includes(name);
      for (const name of can) if (options.has(name)) select.append(options.get(name));
      if (!select.selectedOptions.length || select.selectedOptions[0].disabled) { select.value = "auto"; select.dispatchEvent(new Event("change")); }
    }
  }
  show(kind) {
    if ($("episodes").value === EPISODES[this.kind]) $("episodes").value = EPISODES[kind];
    this.kind = kind;
    for (const [one, panel] of Object.entries(PANELS)) ($(panel).hidden = one !== kind), $(`tab-${one}`).setAttribute("aria-pressed", one === kind);
    $("versus").parentElement.hidden = kind === "machine";
    this.sides();
    this.offer();
  }
  sides() { this.lanes[1].hidden = !this.versus, this.lanes[0].firstChild.textContent = this.versus ? "Left player" : "The player"; }
  get versus() { return $("versus").checked && this.kind !== "machine"; }
  machine() { $("machine-summary").textContent = MACHINES[$("machine").value][1]; }
  problem() {
    const found = this.catalogue.problems[$("problem").value];
    $("problem-summary").textContent = found.summary;
    $("options").replaceChildren(...found.options.map(field));
    this.offer();
  }
  lane(i, ...chosen) {
    const place = tag("fieldset", { class: "lane-form " + "ab"[i] }, tag("legend", {}, ["Left player", "Right player"][i]));
    place.parts = {};
    ["primal", "dual"].forEach((role, j) => {
      const known = this.catalogue.players[role], summary = tag("p"), inside = tag("div", { class: "fields" });
      const select = tag("select", { "aria-label": `${["Left", "Right"][i]} ${role} player` }, tag("option", { value: "auto" }, "auto: suits the problem"), ...Object.keys(known).map((name) => tag("option", { value: name, selected: name === chosen[j] }, name)));
      const change = () => {
        summary.textContent = select.value === "auto" ? (role === "dual" ? "The paper's, beside a primal player that you name; else chosen with it." : "Chosen by what a learner may know of the problem.") : known[select.value].summary;
        inside.replaceChildren(...(known[select.value]?.settings || []).map(field));
      };
      select.addEventListener("change", change);
      change();
      place.append(tag("label", {}, role === "primal" ? "Primal: chooses the policy" : "Dual: chooses the multiplier", select), summary, tag("details", {}, tag("summary", {}, "Settings"), inside));
      place.parts[role] = [select, inside];
    });
    return place;
  }
  // The form as it was for a game that was played: to play it again with another seed, or to change it first.
  recall(lanes) {
    const { spec } = lanes[0], drawn = spec.problem.startsWith("drawn"), machine = spec.problem in MACHINES;
    this.show(drawn ? "draw" : machine ? "machine" : "problem");
    if (machine) ($("machine").value = spec.problem), this.machine();
    else if (drawn) this.editor.load({ slip: 0.1, horizon: 12, ...spec.problem_options }), ($("by-hand").checked = spec.problem !== "drawn-v0"), ($("ask").checked = spec.ask === "when-stuck");
    else ($("problem").value = spec.problem), this.problem(), fill($("options"), spec.problem_options);
    if (!machine) $("versus").checked = lanes.length > 1, this.sides();
    if (!machine) lanes.forEach((lane, i) => ["primal", "dual"].forEach((role) => {
      const [select, inside] = this.lanes[i].parts[role];
      select.value = lane.spec[role].name;
      select.dispatchEvent(new Event("change"));
      fill(inside, lane.spec[role].settings);
    }));
    $("episodes").value = spec.episodes, $("seed").value = spec.seed + 1, $("feedback").value = spec.feedback;
  }
  async start(started) {
    const machine = this.kind === "machine", lanes = this.lanes.slice(0, this.versus ? 2 : 1).map(({ parts }) => ({ primal: parts.primal[0].value, dual: parts.dual[0].value, settings: { primal: values(parts.primal[1]), dual: values(parts.dual[1]) } }));
    const request = { lanes, episodes: Number($("episodes").value), seed: Number($("seed").value), feedback: $("feedback").value, pace: machine ? 1 : 2 };
    if ($("bound").value !== "") request.bound = Number($("bound").value);
    if (machine) request.problem = $("machine").value;
    else if (this.kind === "draw") Object.assign(request, { grid: this.editor.grid, by_hand: $("by-hand").checked, ask: $("by-hand").checked && $("ask").checked ? "when-stuck" : "never" });
    else Object.assign(request, { problem: $("problem").value, options: values($("options")) });
    $("start").disabled = true;
    $("start-trouble").hidden = true;
    try {
      const { name } = await post("/api/start", request);
      if (!machine) sessionStorage.setItem("started", name); // a machine is watched as it really moves
      started(name);
    } catch (error) {
      $("start-trouble").textContent = error.message;
      $("start-trouble").hidden = false;
    } finally {
      $("start").disabled = false;
    }
  }
}
