// Emphasis, code and links inside a block, as nodes. Only http and https become links.

import { el } from "./dom.js";

// Beyond this many characters a block stays plain, so that no text can make a frame slow.
const LONGEST = 20_000;
const MARKS = new RegExp(
  [
    "(?<ticks>`+)(?<code>.+?)\\k<ticks>(?!`)",
    "\\*\\*(?<strong>\\S(?:[^]*?\\S)?)\\*\\*",
    "\\*(?<em>[^\\s*](?:[^*]*[^\\s*])?)\\*",
    "(?<![\\w_])_(?<em2>[^\\s_](?:[^_]*[^\\s_])?)_(?![\\w_])",
    "\\[(?<label>[^\\[\\]]+)\\]\\((?<to>https?://[^\\s()]+)\\)",
    "(?<bare>https?://[^\\s<>()\"'`*]+[^\\s<>()\"'`*.,;:!?])",
  ].join("|"),
  "g",
);

/** The nodes of a text. */
export function inline(text, depth = 0) {
  if (text.length > LONGEST || depth > 3) return [text];
  const nodes = [];
  let at = 0;
  for (const mark of text.matchAll(MARKS)) {
    nodes.push(text.slice(at, mark.index), marked(mark.groups, depth + 1));
    at = mark.index + mark[0].length;
  }
  return [...nodes, text.slice(at)].filter((node) => node !== "");
}

function marked(found, depth) {
  if (found.code) return el("code", {}, found.code.trim());
  if (found.strong) return el("strong", {}, ...inline(found.strong, depth));
  if (found.bare) return link(found.bare, found.bare);
  if (found.to) return link(found.to, found.label);
  return el("em", {}, ...inline(found.em ?? found.em2, depth));
}

/** A link says where it leads when its label does not: the label is the model's. */
function link(to, label) {
  const url = URL.canParse(to) ? new URL(to) : null;
  if (!url) return label;
  const host = label === to ? null : el("span", { class: "host" }, ` (${url.host})`);
  const safe = { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow" };
  return el("a", safe, label, host);
}
