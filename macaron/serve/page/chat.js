// The chat: sends turns one at a time, draws them, keeps those that were answered whole. A turn
// that was stopped or failed is in no history, here as on the server.

import { announce, notice } from "./notice.js";
import { runTurn } from "./run.js";
import { toEnd } from "./scroll.js";
import { TurnView } from "./turn.js";

export class Chat {
  #list = document.getElementById("turns");
  #stopping = null;

  /** `keys` asks for an API key; `running(state)` hears when a turn begins and ends. */
  constructor(api, conversation, keys, running) {
    Object.assign(this, { api, conversation, keys, running });
  }

  async send(text) {
    if (this.#stopping) return;
    const view = new TurnView(text);
    this.#list.append(view.element);
    notice(null);
    toEnd();
    await this.#run(text, view);
  }

  /** Stops the running turn, if there is one. */
  stop() {
    this.#stopping?.abort();
  }

  /** Forgets what is shown here; the server keeps its turns. */
  begin() {
    this.stop();
    this.conversation.clear();
    this.#list.replaceChildren();
    notice(null);
    announce("New conversation.");
  }

  /** Shows the conversation that the tab had before. */
  async restore() {
    try {
      await this.#asked(() => this.conversation.restore(this.api));
    } catch (error) {
      return notice(error.message, { label: "Try again", action: () => this.restore() });
    }
    notice(null);
    const views = this.conversation.turns.map((turn) => this.#restored(turn));
    this.#list.replaceChildren(...views.map((view) => view.element));
    toEnd();
    if (this.conversation.turns.at(-1)?.forgotten) {
      notice("The server has forgotten this conversation. Your next message begins a new one.");
    }
  }

  #restored(turn) {
    const view = new TurnView(turn.asked);
    if (turn.forgotten) view.fail("The server has forgotten this answer.");
    else view.finish(turn, this.#say(turn));
    return view;
  }

  async #run(text, view) {
    this.#stopping = new AbortController();
    const { signal } = this.#stopping;
    this.running(true);
    try {
      const turn = await this.#asked(() => this.#follow(text, view, signal));
      if (view.element.isConnected) this.#finished(turn, view);
    } catch (error) {
      this.#failed(error, text, view);
    } finally {
      this.#stopping = null;
      this.running(false);
    }
  }

  #follow(text, view, signal) {
    let said = null;
    return runTurn(this.api, text, this.conversation.previous, signal, (turn) => {
      const name = turn.about.specialist;
      if (name && name !== said) announce(`${(said = name)} is answering.`);
      view.show(turn);
    });
  }

  #finished(turn, view) {
    this.conversation.add(turn);
    view.finish(turn, this.#say(turn));
    announce(`Answer from ${turn.about.specialist ?? "the model"}: ${turn.text}`);
  }

  #failed(error, text, view) {
    const again = { label: "Send again", action: () => (view.element.remove(), this.send(text)) };
    if (error.name === "AbortError") {
      view.fail("Stopped. This turn is not part of the conversation.", again);
    } else if (error.status === 404 && this.conversation.previous) {
      this.conversation.forgotten();
      again.label = "Send in a new one";
      view.fail("The server has forgotten this conversation.", again);
    } else if (error.name === "ApiError") {
      view.fail(error.message, again);
    } else throw error;
  }

  #say(turn) {
    return async (changes) => {
      await this.#asked(() => this.api.feedback({ id: turn.id, ...changes }));
      Object.assign(turn.feedback, changes);
      this.conversation.save();
    };
  }

  /** Does what needs the server; when it wants a key, asks for one and does it again. */
  async #asked(action) {
    for (;;) {
      try {
        return await action();
      } catch (error) {
        if (error.status !== 401 || !(await this.keys.ask(wanted(this.api)))) throw error;
      }
    }
  }
}

function wanted({ key }) {
  return key ? "The server refused this key." : "The server asks for an API key.";
}
