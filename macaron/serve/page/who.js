// Who answered and why: the head of an answer, with its digests on demand.

import { el } from "./dom.js";

const TONES = ["chat", "agent", "coding", "genui"];
const OTHERS = 2;
const WHY = {
  routed: ["routed", "The router chose this specialist for the message."],
  tool_result: ["its own tool call", "A tool's result goes back to the specialist that called it."],
  default: ["default", "The router failed, so the default specialist answered."],
  only: ["only specialist", "There is no other specialist to choose."],
};

/** The colour of a specialist, as data-tone of an element; those we don't know share two more. */
export function toneOf(name) {
  if (TONES.includes(name)) return name;
  const sum = [...(name ?? "")].reduce((total, character) => total + character.codePointAt(0), 0);
  return `other-${sum % OTHERS}`;
}

/** A line that opens: who, why, how sure; inside it which pair and harness. */
export function who(turn) {
  const { specialist, route } = turn.about;
  const [short, long] = WHY[route] ?? [route ?? "", route ?? "Not told."];
  const line = el(
    "summary", {},
    el("span", { class: "dot", "aria-hidden": "true" }),
    el("span", { class: "name" }, specialist ?? "answer"),
    el("span", { class: "why" }, [short, sure(turn.about)].filter(Boolean).join(", ")),
  );
  return el("details", { class: "who" }, line, facts(turn, long));
}

function sure({ route, confidence }) {
  return route === "routed" && confidence ? `${Math.round(100 * Number(confidence))} % sure` : "";
}

function facts({ id, about }, long) {
  const rows = [
    ["Why", long],
    ["Confidence", about.confidence ?? null],
    ["Pair", about.pair ?? null],
    ["HCP", about.hcp ?? null],
    ["Turn", about.turn ?? null],
    ["Response", id],
  ].filter(([, value]) => value !== null);
  const row = ([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
  return el("dl", {}, ...rows.map(row));
}
