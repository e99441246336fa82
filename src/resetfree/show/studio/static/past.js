// Past episodes: a line with a mark for each reset, and a slider that draws any episode again, from the record.
import { get } from "./api.js";
import { el, number } from "./draw.js";

const $ = (id) => document.getElementById(id);
const ONCE_MORE = 0.9; // seconds in which an episode is walked again

export class Past {
  constructor(stage) {
    this.stage = stage, this.k = null, this.last = 0, this.asking = false, this.waiting = null;
    $("past").hidden = true;
    this.words();
  }
  // The newest frame: the line grows, and the slider stays at its end unless the user has moved it.
  follow(frame) {
    const last = Math.max(...frame.lanes.map((lane) => lane.k));
    if (last < this.last) this.k = null; // it was resumed from an earlier checkpoint
    this.last = last;
    $("past").hidden = last < 2;
    $("scrub").max = Math.max(last, 1);
    if (this.k === null) $("scrub").value = last;
    this.words();
  }
  // A mark for each reset, one row for each lane.
  plot(curves) {
    const rows = curves.length, n = Math.max(this.last - 1, 1);
    $("falls").setAttribute("viewBox", `0 0 1000 ${10 * rows}`);
    $("falls").replaceChildren(...curves.flatMap((c, i) => (c ? [el("path", { class: "ab"[i], d: c.falls.map((k) => `M${((1000 * (k - 1)) / n).toFixed(1)} ${10 * i + 1}v8`).join("") })] : [])));
    $("past").classList.toggle("quiet", !curves.some((c) => c?.falls.length));
  }
  moved(seconds = 0) { this.seek(Number($("scrub").value), "", seconds); }
  reset(seek) { this.seek(this.k ?? this.last, seek, ONCE_MORE); }
  again() { this.moved(ONCE_MORE); }
  async seek(k, seek, seconds) {
    if (this.asking) return (this.waiting = [k, seek, seconds]); // only the newest wish counts
    this.asking = true;
    try {
      const found = await get(`/api/episode?name=${encodeURIComponent(this.stage.name)}&k=${k}&seek=${seek}`);
      this.k = found.k;
      if (seek) $("scrub").value = found.k;
      found.lanes.forEach((episode, i) => this.show(this.stage.lanes[i], episode, seconds));
      this.stage.trouble("");
    } catch (error) {
      this.stage.trouble(error.message);
    } finally {
      this.asking = false;
      this.words();
      const next = this.waiting;
      this.waiting = null;
      if (next) this.seek(...next);
    }
  }
  show(place, episode, seconds) {
    place.note.textContent = episode === null ? `Episode ${this.k.toLocaleString("en")} is not saved yet.`
      : `Episode ${episode.k.toLocaleString("en")} again: ${episode.steps} step${episode.steps === 1 ? "" : "s"}, reward ${number(episode.reward)}, ${episode.reset ? "and then a reset" : "no reset"}.`;
    if (!place.field || episode === null) return;
    place.field.k = -1;
    place.field.walk(episode, seconds);
  }
  leave() {
    this.k = null;
    for (const { field } of this.stage.lanes) if (field) field.k = -1;
    if (this.stage.frame) this.stage.show(this.stage.frame);
  }
  words() {
    $("now").hidden = this.k === null;
    $("scrub-shown").textContent = this.k === null ? "newest" : `${this.k.toLocaleString("en")} of ${this.last.toLocaleString("en")}`;
  }
}
