// Lines that concern the whole page, and what is said to those who do not see it.

import { button, el } from "./dom.js";

const LONGEST = 1000;

/** Shows a line above the composer, with an action if there is one; null takes it away. */
export function notice(line, again = null) {
  const place = document.getElementById("notice");
  const act = again && button({ class: "quiet", onclick: again.action }, again.label);
  place.replaceChildren(...(line ? [el("p", {}, line), ...(act ? [act] : [])] : []));
}

/** Says a line to screen readers, after what they are saying. */
export function announce(line) {
  const place = document.getElementById("announcer");
  place.textContent = line.length > LONGEST ? `${line.slice(0, LONGEST)} …` : line;
}
