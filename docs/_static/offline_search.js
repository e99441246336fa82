// Excerpts of search results where the site is read from a disk: a page may not fetch another one there, so what it would
// fetch is taken from one script with the texts of all pages, which is loaded when the first result is shown.
"use strict";
if (location.protocol === "file:" && document.querySelector("#search-results")) {
  const root = new URL(".", location.href).pathname;
  let loaded = null;
  const texts = () =>
    (loaded ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = "_static/page_texts.js";
      script.onload = () => resolve(PAGE_TEXTS);
      script.onerror = reject;
      document.head.append(script);
    }));
  window.fetch = async (address) => {
    const page = decodeURI(new URL(address, location.href).pathname).slice(decodeURI(root).length);
    const text = (await texts())[page] ?? "";
    return { text: async () => `<div role="main">${text}</div>` };
  };
}
