// Draws a Markdown text into an element, again and again while it grows: blocks that did not change
// keep their nodes, so that a selection or an open preview stays.

import { codeBlock } from "./code.js";
import { el } from "./dom.js";
import { inline } from "./inline.js";
import { blocks } from "./markdown.js";

const drawn = new WeakMap();

/** Draws `text` into `element`; previews are offered once the text is `complete`. */
export function draw(element, text, complete) {
  const before = drawn.get(element) ?? [];
  const now = blocks(text).map((block) => ({ block, key: `${complete} ${JSON.stringify(block)}` }));
  let same = 0;
  while (same < now.length && now[same].key === before[same]) same += 1;
  while (element.childNodes.length > same) element.lastChild.remove();
  element.append(...now.slice(same).map(({ block }) => node(block, complete)));
  drawn.set(element, now.map(({ key }) => key));
}

function node(block, complete) {
  switch (block.kind) {
    case "code":
      return codeBlock(block.language, block.text, complete);
    case "heading":
      return el(`h${Math.min(block.level + 2, 6)}`, {}, ...inline(block.text));
    case "rule":
      return el("hr");
    case "list":
      return list(block, complete);
    case "quote":
      return el("blockquote", {}, ...block.blocks.map((inner) => node(inner, complete)));
    case "table":
      return table(block.rows);
    default:
      return el("p", {}, ...inline(block.text));
  }
}

function list({ start, items }, complete) {
  const entries = items.map((inner) => el("li", {}, ...inner.map((one) => node(one, complete))));
  return start === null ? el("ul", {}, ...entries) : el("ol", { start }, ...entries);
}

function table([head, ...rows]) {
  const row = (tag, cells) => el("tr", {}, ...cells.map((cell) => el(tag, {}, ...inline(cell))));
  const body = el("tbody", {}, ...rows.map((cells) => row("td", cells)));
  const whole = el("table", {}, el("thead", {}, row("th", head)), body);
  const region = { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table" };
  return el("div", region, whole);
}
