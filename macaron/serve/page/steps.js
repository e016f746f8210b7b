// Tools that the specialist used on the server: a collapsed line each, with arguments and result.

import { el } from "./dom.js";

/** Draws the steps into a list; lines that are known are only brought up to date. */
export function drawSteps(list, steps) {
  for (const [at, step] of steps.entries()) update(list.children[at] ?? add(list), step);
  list.hidden = steps.length === 0;
}

function add(list) {
  const line = el("summary", {}, el("span", { class: "tool" }), el("span", { class: "state" }));
  const part = (name, kind) => [el("h4", {}, name), el("pre", { class: kind, tabindex: "0" })];
  const inside = [...part("Arguments", "arguments"), ...part("Result", "result")];
  const item = el("li", {}, el("details", { class: "step" }, line, ...inside));
  list.append(item);
  return item;
}

function update(item, { name, arguments: given, result }) {
  const write = (part, text) => (item.querySelector(part).textContent = text);
  const running = result === null || result === undefined;
  write(".tool", name);
  write(".state", running ? "running" : "done");
  write(".arguments", readable(given));
  write(".result", running ? "It is not there yet." : readable(result));
}

function readable(value) {
  if (typeof value !== "string") return JSON.stringify(value, null, 2);
  try {
    const parsed = JSON.parse(value);
    return typeof parsed === "object" ? JSON.stringify(parsed, null, 2) : value;
  } catch {
    return value;
  }
}
