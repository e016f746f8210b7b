// A fenced block: its code, and a preview where the code describes an interface.

import { button, el } from "./dom.js";
import { frameOf, markupOf } from "./preview.js";

/** Shows code; a preview is offered once the block is `complete`. */
export function codeBlock(language, text, complete) {
  const name = language || "text";
  const head = el("div", { class: "code-head" }, el("span", { class: "language" }, name));
  const region = { tabindex: "0", role: "region", "aria-label": `Code: ${name}` };
  const code = el("pre", region, el("code", {}, text));
  const figure = el("figure", { class: "code" }, head, code);
  const markup = complete ? markupOf(language, text) : null;
  if (markup !== null) head.append(toggle(figure, name, markup));
  return figure;
}

function toggle(figure, name, markup) {
  const switched = () => {
    const shown = figure.querySelector("iframe");
    if (shown) shown.remove();
    else figure.append(frameOf(name, markup));
    open.setAttribute("aria-expanded", String(!shown));
    open.textContent = shown ? "Preview" : "Hide preview";
  };
  const open = button({ class: "quiet", "aria-expanded": "false", onclick: switched }, "Preview");
  return open;
}
