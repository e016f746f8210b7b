// One turn while it runs. Its state is plain data that only this file changes; a turn that did not
// reach `response.completed` or `response.incomplete` ends with an error and is in no history.

import { ApiError } from "./api.js";

/**
 * Asks and follows the answer; `changed(turn)` is called whenever more of it is known.
 * A turn: `id`, `asked`, `text`, `steps` [{call_id, name, arguments, result}], `about` (from the
 * headers), `cut` (it reached a limit), `feedback`.
 */
export async function runTurn(api, asked, previous, signal, changed) {
  const turn = { id: null, asked, text: "", steps: [], about: {}, cut: false, feedback: {} };
  const response = await api.respond(asked, previous, signal);
  turn.about = about(response.headers);
  changed(turn);
  let whole = false;
  // Read to the very end: to leave before it would tell the server that the answer did not arrive.
  for await (const event of reading(response.events)) {
    whole = take(turn, event) || whole;
    changed(turn);
  }
  if (whole) return turn;
  throw new ApiError("The connection ended before the answer was complete.");
}

/** The whole text of a response in the API's form. */
export function textOf(response) {
  const messages = (response.output ?? []).filter((item) => item.type === "message");
  const parts = messages.flatMap((item) => item.content ?? []);
  return parts.map((part) => part.text ?? part.refusal ?? "").join("");
}

/** What the headers of an answer tell: who answered, why, and under which pair. */
export function about(headers) {
  const names = ["specialist", "route", "confidence", "pair", "hcp", "turn"];
  const found = names.map((name) => [name, headers.get(`x-macaron-${name}`)]);
  return Object.fromEntries(found.filter(([, value]) => value));
}

async function* reading(events) {
  try {
    yield* events;
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    throw new ApiError("The connection broke before the answer was complete.");
  }
}

/** Takes an event in; whether the turn is complete. */
function take(turn, event) {
  if (event.type === "response.created") turn.id = event.response.id;
  else if (event.type === "response.output_text.delta") turn.text += event.delta;
  else if (event.type === "macaron.step") step(turn.steps, event);
  else if (event.type === "error" || event.type === "response.failed") throw failure(event);
  return ended(turn, event);
}

function ended(turn, event) {
  if (event.type !== "response.completed" && event.type !== "response.incomplete") return false;
  turn.id = event.response.id;
  turn.text = textOf(event.response) || turn.text;
  turn.cut = event.response.status === "incomplete";
  return true;
}

/** A call is told twice: when it begins, and when its result is there. */
function step(steps, { call_id, name, arguments: given, result }) {
  const known = steps.find((one) => one.call_id === call_id);
  if (known) known.result = result;
  else steps.push({ call_id, name, arguments: given, result });
}

function failure(event) {
  const error = event.response?.error ?? event.error ?? event;
  return new ApiError(String(error.message ?? "The answer failed."));
}
