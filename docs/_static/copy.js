// A button on every block of code that copies it: without prompts, and without what was printed.
"use strict";
addEventListener("DOMContentLoaded", () => {
  if (!navigator.clipboard) return; // pages opened from a disk may not write to it
  for (const block of document.querySelectorAll("div.highlight")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      const lines = block.querySelector("pre").innerText.trimEnd().split("\n");
      const typed = lines.some((line) => line.startsWith(">>> ")) ? lines.filter((line) => /^(>>>|\.\.\.)( |$)/.test(line)).map((line) => line.slice(4)) : lines.map((line) => line.replace(/^\$ /, ""));
      await navigator.clipboard.writeText(typed.join("\n") + "\n");
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.append(button);
  }
});
