// The field for a message. Enter sends, Shift+Enter breaks the line; while a turn runs, its button
// stops it.

export class Composer {
  #form = document.getElementById("composer");
  #field = document.getElementById("message");
  #button = document.getElementById("send");
  #running = false;

  /** `send(text)` and `stop()` are called for the user. */
  constructor({ send, stop }) {
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.#running) stop();
      else this.#submit(send);
    });
    this.#field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.#running) this.#submit(send);
    });
    this.#field.addEventListener("input", () => this.#fit());
  }

  focus() {
    this.#field.focus();
  }

  set running(running) {
    this.#running = running;
    this.#button.dataset.does = running ? "stop" : "send";
    this.#button.querySelector(".label").textContent = running ? "Stop" : "Send";
    this.#button.querySelector("use").setAttribute("href", running ? "#icon-stop" : "#icon-send");
  }

  #submit(send) {
    const text = this.#field.value.trim();
    this.#field.focus();
    if (!text) return;
    this.#field.value = "";
    this.#fit();
    send(text);
  }

  #fit() {
    this.#field.style.height = "auto";
    this.#field.style.height = `${this.#field.scrollHeight}px`;
  }
}
