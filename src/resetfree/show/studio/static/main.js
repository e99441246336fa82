// Which part of the page is shown: #new, #grid=ROWS, #runs or #run=NAME, so that a reload comes back to the same run.
import { get } from "./api.js";
import { tag } from "./draw.js";
import { Setup } from "./setup.js";
import { Stage } from "./stage.js";

const $ = (id) => document.getElementById(id);
const root = document.documentElement;
let stage = null;

function trouble(words) {
  $("trouble").hidden = !words;
  $("trouble").textContent = words;
}
async function runs() {
  const found = await get("/api/runs");
  $("folder").textContent = found.folder;
  const rows = found.runs.map((run) => {
    const first = run.lanes[0], wrong = run.lanes.find((lane) => lane.error)?.error;
    const cells = wrong ? [tag("td", { colspan: 4 }, wrong)] : [tag("td", {}, first.problem), tag("td", {}, run.lanes.map((lane) => `${lane.primal} / ${lane.dual}`).join(" · ")), tag("td", { class: "n", "data-head": "episodes planned" }, first.episodes.toLocaleString("en")), tag("td", { class: "n", "data-head": "seed" }, String(first.seed))];
    return tag("tr", {}, tag("td", {}, wrong ? run.name : tag("a", { href: `#run=${encodeURIComponent(run.name)}` }, run.name), run.here ? tag("span", { class: "badge running" }, "running") : ""), ...cells, tag("td", { class: "n" }, `${(run.bytes / 1e6).toFixed(2)} MB`), tag("td", {}, new Date(run.changed * 1000).toLocaleString()));
  });
  $("run-list").replaceChildren(...(rows.length ? rows : [tag("tr", {}, tag("td", { colspan: 7 }, "No run yet."))]));
}
function route() {
  const name = new URLSearchParams(location.hash.slice(1)).get("run"), list = location.hash === "#runs";
  $("setup").hidden = Boolean(name) || list, $("runs").hidden = !list, $("stage").hidden = !name;
  for (const [id, here] of [["to-new", !name && !list], ["to-runs", list]]) here ? $(id).setAttribute("aria-current", "page") : $(id).removeAttribute("aria-current");
  trouble("");
  stage?.close();
  stage = name ? new Stage(name, trouble) : null;
  if (list) runs().catch((error) => trouble(error.message));
  if (!name) document.title = "resetfree studio";
}

$("theme").addEventListener("click", () => {
  const now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
});
if (localStorage.getItem("theme")) root.dataset.theme = localStorage.getItem("theme");
for (const [id, act] of [["pause", "pause"], ["step", "step"], ["get-report", "report"], ["get-film", "film"]]) $(id).addEventListener("click", () => stage?.[act]());
$("stop").addEventListener("click", () => stage?.control("stop"));
$("resume").addEventListener("click", () => stage?.control("resume", { pace: 0 }));
$("speed").addEventListener("input", () => stage?.speed());
$("scrub").addEventListener("input", () => stage?.past.moved());
$("scrub").addEventListener("change", () => stage?.past.again());
for (const [id, seek] of [["earlier-reset", "earlier"], ["later-reset", "later"]]) $(id).addEventListener("click", () => stage?.past.reset(seek));
$("now").addEventListener("click", () => stage?.past.leave());
$("log").addEventListener("change", () => stage?.plot());
addEventListener("keydown", (event) => {
  if (!stage || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=range], [type=checkbox]), select, textarea")) return;
  if (event.key === " " && !event.target.closest("button, a, summary")) { event.preventDefault(); stage.pause(); }
  if (event.key === "s" || event.key === "S") stage.step();
});
addEventListener("hashchange", route);
route();
const open = (name) => (location.hash = `run=${encodeURIComponent(name)}`);
get("/api/catalogue").then((catalogue) => {
  const setup = new Setup(catalogue, open);
  const shared = () => {
    const words = new URLSearchParams(location.hash.slice(1));
    if (!words.has("grid")) return;
    setup.show("draw");
    try { setup.editor.open(words); } catch (error) { trouble(error.message); }
  };
  shared();
  addEventListener("hashchange", shared);
  $("again").addEventListener("click", () => (setup.recall(stage.scene.lanes), setup.start(open)));
  $("edit").addEventListener("click", () => (setup.recall(stage.scene.lanes), (location.hash = "new")));
}).catch((error) => trouble(error.message));
$("first").hidden = Boolean(localStorage.getItem("seen"));
$("first-done").addEventListener("click", () => ($("first").hidden = true, localStorage.setItem("seen", "yes")));
