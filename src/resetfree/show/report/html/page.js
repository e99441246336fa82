"use strict";
// Saves figures, and switches between light and dark. Without it the page reads the same, and PDF and CSV are plain links.
const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");

function drawing(figure) {
  const svg = figure.querySelector("svg").cloneNode(true);
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
