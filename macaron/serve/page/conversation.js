// The conversation as it is known here: turns that were answered whole, the oldest first. It lasts
// as long as the tab. Texts of answers stay with the server and are asked for after a reload.

import { textOf } from "./run.js";

const PLACE = "macaron.conversation";

export class Conversation {
  turns = [];

  /** The turn to go on from; null begins a conversation. */
  get previous() {
    const last = this.turns.at(-1);
    return last && !last.forgotten ? last.id : null;
  }

  add(turn) {
    this.turns.push(turn);
    this.save();
  }

  clear() {
    this.turns = [];
    this.save();
  }

  /** The server has none of it any more. */
  forgotten() {
    for (const turn of this.turns) turn.forgotten = true;
  }

  save() {
    const kept = this.turns.map(({ text, forgotten, ...rest }) => rest);
    keep(PLACE, this.turns.length ? JSON.stringify(kept) : null);
  }

  /**
   * Takes up what an earlier life of the page left. A turn that the server does not have any more
   * is marked `forgotten`.
   *
   * Throws an ApiError when the server can't say.
   */
  async restore(api) {
    this.turns = JSON.parse(recall(PLACE) ?? "[]");
    this.turns = await Promise.all(this.turns.map((turn) => filled(api, turn)));
  }
}

async function filled(api, turn) {
  try {
    return { ...turn, text: textOf(await api.retrieve(turn.id)), forgotten: false };
  } catch (error) {
    if (error.status !== 404) throw error;
    return { ...turn, text: "", forgotten: true };
  }
}

/** Keeps a text in the tab; null removes it. Without room or permission, it does nothing. */
export function keep(place, text) {
  try {
    if (text === null) sessionStorage.removeItem(place);
    else sessionStorage.setItem(place, text);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
}

export function recall(place) {
  try {
    return sessionStorage.getItem(place);
  } catch {
    return null;
  }
}
