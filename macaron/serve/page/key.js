// The API key: asked for when the server wants one, kept no longer than the tab.

import { keep, recall } from "./conversation.js";

const PLACE = "macaron.key";

export class KeyDialog {
  #api;
  #dialog = document.getElementById("key-dialog");
  #field = document.getElementById("key");
  #open = document.getElementById("key-open");
  #asking = null;

  constructor(api) {
    this.#api = api;
    this.#use(recall(PLACE) ?? "");
    this.#open.addEventListener("click", () => this.ask("Change this tab's key, or forget it."));
    document.getElementById("key-forget").addEventListener("click", () => this.#close(""));
    document.getElementById("key-cancel").addEventListener("click", () => this.#dialog.close());
    this.#dialog.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#close(this.#field.value.trim());
    });
  }

  /** Asks for a key, once at a time; whether one was given. */
  ask(reason) {
    this.#asking ??= this.#ask(reason).finally(() => (this.#asking = null));
    return this.#asking;
  }

  #ask(reason) {
    document.getElementById("key-reason").textContent = reason;
    this.#field.value = "";
    this.#dialog.returnValue = "";
    this.#dialog.showModal();
    return new Promise((done) => {
      const closed = () => done(this.#dialog.returnValue === "given");
      this.#dialog.addEventListener("close", closed, { once: true });
    });
  }

  #close(key) {
    this.#use(key);
    this.#dialog.close(key ? "given" : "forgotten");
  }

  #use(key) {
    this.#api.key = key;
    keep(PLACE, key || null);
    this.#open.hidden = !key;
    document.getElementById("key-forget").hidden = !key;
  }
}
