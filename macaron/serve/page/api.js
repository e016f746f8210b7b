// The server's public API, the same that every client uses. What goes wrong is an ApiError, whose
// message is one line for a person.

import { events } from "./sse.js";

export class ApiError extends Error {
  name = "ApiError";

  /** `status` is HTTP's; 0: no answer came, or it broke off. */
  constructor(message, status = 0) {
    super(message.replace(/\s+/g, " ").trim());
    this.status = status;
  }
}

export class Api {
  /** Sent as a bearer token, unless it is empty. */
  key = "";
  #model = null;

  /** Begins a turn: the response's headers, and its events. */
  async respond(input, previous, signal) {
    this.#model ??= (await this.#json("v1/models", signal)).data[0].id;
    const body = { model: this.#model, input, stream: true, previous_response_id: previous };
    const response = await this.#ask("v1/responses", { method: "POST", body, signal });
    return { headers: response.headers, events: events(response.body) };
  }

  /** A response that the server keeps. */
  async retrieve(id) {
    return this.#json(`v1/responses/${encodeURIComponent(id)}`);
  }

  /** Says something of a turn: `{id, rating, correction, outcome}`, the last three as wanted. */
  async feedback(body) {
    await this.#ask("v1/feedback", { method: "POST", body });
  }

  async health() {
    return this.#json("health");
  }

  async #json(path, signal) {
    return (await this.#ask(path, { signal })).json();
  }

  async #ask(path, { method = "GET", body, signal } = {}) {
    const headers = this.key ? { Authorization: `Bearer ${this.key}` } : {};
    if (body) headers["Content-Type"] = "application/json";
    const request = { method, headers, signal, body: body && JSON.stringify(body) };
    const response = await fetch(path, request).catch(unreachable);
    if (!response.ok) throw await refusal(response);
    return response;
  }
}

function unreachable(error) {
  if (error.name === "AbortError") throw error;
  throw new ApiError("The server cannot be reached. Is it running?");
}

async function refusal(response) {
  const said = await response.json().catch(() => null);
  const message = said?.error?.message ?? `The server answered with HTTP ${response.status}.`;
  const wait = response.headers.get("retry-after");
  const hint = response.status === 429 && wait ? ` Try again in ${wait} s.` : "";
  return new ApiError(String(message) + hint, response.status);
}
