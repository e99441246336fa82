"use strict";
// Reads values off figures, saves them, and switches between light and dark. Without it the page reads the same, and PDF and CSV are plain links.
const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");

function drawing(figure) {
  const svg = figure.querySelector("svg").cloneNode(true);
  for (const line of svg.querySelectorAll(".crosshair")) line.remove();
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  svg.setAttribute("width", width + "pt");
  svg.setAttribute("height", height + "pt");
  const text = new XMLSerializer().serializeToString(svg).replace(/var\(--[a-z]+, (#[0-9a-f]{6})\)/g, "$1");
  return { text, width, height };
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function saveSvg(figure) {
  save(new Blob(['<?xml version="1.0" encoding="utf-8"?>\n', drawing(figure).text], { type: "image/svg+xml" }), figure.id + ".svg");
}

function savePng(figure) {
  const { text, width, height } = drawing(figure);
  const scale = 300 / 72;
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const pen = canvas.getContext("2d");
    pen.fillStyle = "#ffffff";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(address);
    canvas.toBlob((blob) => save(blob, figure.id + ".png"), "image/png");
  };
  image.src = address;
}

for (const button of document.querySelectorAll("button[data-save]")) {
  button.hidden = false;
  const figure = button.closest("figure");
  button.addEventListener("click", () => (button.dataset.save === "svg" ? saveSvg(figure) : savePng(figure)));
}

const theme = document.getElementById("theme");
theme.hidden = false;
theme.addEventListener("click", () => {
  const now = root.dataset.theme || (dark.matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
});

// The nearest point of each line to the pointer: x, then one row per line.
const short = (value) => (value === null ? "–" : Number.isInteger(value) ? value.toLocaleString("en") : String(value));

function nearest(xs, x) {
  let best = 0;
  for (let i = 1; i < xs.length; i++) if (xs[i] !== null && Math.abs(xs[i] - x) < Math.abs(xs[best] - x)) best = i;
  return best;
}

function readable(figure) {
  const panels = JSON.parse(figure.dataset.points);
  const svg = figure.querySelector("svg");
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const line = document.createElementNS(svg.namespaceURI, "line");
  const box = document.createElement("div");
  line.setAttribute("class", "crosshair");
  box.className = "reading";
  box.setAttribute("aria-hidden", "true");

  function leave() {
    line.remove();
    box.remove();
  }

  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("pointermove", (event) => {
    const at = svg.getBoundingClientRect();
    const px = ((event.clientX - at.left) / at.width) * width;
    const py = ((event.clientY - at.top) / at.height) * height;
    const panel = panels.find(({ box: [l, t, r, b] }) => px >= l && px <= r && py >= t && py <= b);
    if (!panel) return leave();
    const [left, top, right, bottom] = panel.box;
    const [low, high] = panel.log ? panel.x.map(Math.log) : panel.x;
    const place = low + ((px - left) / (right - left)) * (high - low);
    const x = panel.log ? Math.exp(place) : place;
    const xs = panel.lines[0][1];
    const shown = xs[nearest(xs, x)];
    const rows = panel.lines.map(([name, ks, ys]) => `${name}: ${short(ys[nearest(ks, shown)])}`);
    box.textContent = [`at ${short(shown)}`, ...rows].join("\n");
    const drawn = left + (((panel.log ? Math.log(shown) : shown) - low) / (high - low)) * (right - left);
    for (const [name, value] of Object.entries({ x1: drawn, x2: drawn, y1: top, y2: bottom })) line.setAttribute(name, value);
    if (!line.isConnected) {
      svg.append(line);
      figure.append(box);
    }
    const frame = figure.getBoundingClientRect();
    const room = frame.width - box.offsetWidth - 8;
    box.style.left = Math.max(4, Math.min(event.clientX - frame.left + 14, room)) + "px";
    box.style.top = event.clientY - frame.top + 14 + "px";
  });
}

document.querySelectorAll("figure[data-points]").forEach(readable);

// A film moves until it is folded away; who wants no motion unfolds it.
if (matchMedia("(prefers-reduced-motion: reduce)").matches) document.querySelectorAll("details.film").forEach((film) => (film.open = false));

// A link into a folded group opens it, and paper shows everything.
function unfold() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  let folded = target && target.closest("details");
  if (!folded) return;
  for (; folded; folded = folded.parentElement.closest("details")) folded.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", unfold);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((folded) => (folded.open = true)));
unfold();
