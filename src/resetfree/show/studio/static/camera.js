// The pictures that a run keeps of itself while it is played: its first life, resets, and where it is now.
import { tag } from "./draw.js";

const FRAME = 60, HELD = 900; // milliseconds: of a picture, and of the last one of a scene

export class Camera {
  constructor() {
    this.image = tag("img", { alt: "", class: "camera" });
    this.words = tag("figcaption");
    this.choice = tag("select", { "aria-label": "Scene", onchange: () => this.play(this.choice.value) });
    this.figure = tag("figure", { class: "kept", hidden: true }, this.image, tag("div", { class: "row" }, this.choice, this.words));
    this.scenes = [], this.timer = 0;
  }
  // Keep the scene that is watched, if it is still there; otherwise the newest one.
  load(scenes) {
    const watched = this.choice.value, following = !this.scenes.length || watched === this.scenes.at(-1).title;
    this.scenes = scenes;
    this.figure.hidden = !scenes.length;
    if (!scenes.length) return this.stop();
    this.choice.replaceChildren(...scenes.map(({ title }) => tag("option", {}, title)));
    const found = scenes.find(({ title }) => title === watched);
    this.choice.value = (following || !found ? scenes.at(-1) : found).title;
    this.play(this.choice.value);
  }
  play(title) {
    this.stop();
    const scene = this.scenes.find((one) => one.title === title);
    if (!scene) return;
    const n = scene.pictures.length, still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const show = (i) => {
      this.image.src = scene.pictures[i];
      this.image.alt = `${title}, step ${scene.steps[i]} of this life`;
      this.words.textContent = `step ${scene.steps[i].toLocaleString("en")} of this life${scene.fell && i === n - 1 ? ": a reset" : ""}`;
      this.figure.classList.toggle("fell", scene.fell && i === n - 1);
      if (!still) this.timer = setTimeout(() => show((i + 1) % n), i === n - 1 ? HELD : FRAME);
    };
    show(still ? n - 1 : 0);
  }
  stop() { clearTimeout(this.timer); }
}
