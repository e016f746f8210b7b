// One turn on the page: what was asked, and its answer in one of the states running, done, failed.

import { button, el } from "./dom.js";
import { feedbackRow } from "./feedback.js";
import { draw } from "./prose.js";
import { following } from "./scroll.js";
import { drawSteps } from "./steps.js";
import { toneOf, who } from "./who.js";

export class TurnView {
  #head = el("div", { class: "head" });
  #steps = el("ol", { class: "steps", "aria-label": "Tools used", hidden: true });
  #text = el("div", { class: "text" });
  #foot = el("div", { class: "foot" });
  #answer = el("article", { class: "answer", "aria-label": "Answer" },
    this.#head, this.#steps, this.#text, this.#foot);
  #frame = 0;
  #known = null;

  constructor(asked) {
    const said = el("p", { class: "asked" }, el("span", { class: "unseen" }, "You: "), asked);
    this.element = el("li", { class: "turn" }, said, this.#answer);
    this.#state("running");
    this.#head.append(el("p", { class: "waiting" }, "Choosing a specialist"));
  }

  /** Draws what is known of a running turn, at most once a frame. */
  show(turn) {
    this.#known = turn;
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => following(() => this.#draw(turn, false)));
  }

  /** Draws a turn that is complete; `say(changes)` sends feedback on it. */
  finish(turn, say) {
    this.#state("done");
    following(() => {
      this.#draw(turn, true);
      this.#head.replaceChildren(who(turn));
      this.#foot.replaceChildren(...notes(turn), feedbackRow(turn, say));
    });
  }

  /** Says in a line why there is no whole answer; `again` (label, action) tries it once more. */
  fail(line, again = null) {
    this.#state("failed");
    const retry = again && button({ class: "primary again", onclick: again.action }, again.label);
    following(() => {
      if (this.#known) this.#draw(this.#known, false);
      this.#head.querySelector(".waiting")?.remove();
      const trouble = el("div", { class: "trouble" }, el("p", { role: "alert" }, line), retry);
      this.#foot.replaceChildren(trouble);
    });
  }

  #draw(turn, complete) {
    const name = turn.about.specialist;
    this.#answer.dataset.tone = toneOf(name);
    this.#answer.setAttribute("aria-label", name ? `Answer from ${name}` : "Answer");
    if (this.#head.querySelector(".waiting") && name) this.#head.replaceChildren(who(turn));
    drawSteps(this.#steps, turn.steps);
    draw(this.#text, turn.text, complete);
  }

  #state(state) {
    cancelAnimationFrame(this.#frame);
    this.#answer.dataset.state = state;
    this.#answer.setAttribute("aria-busy", String(state === "running"));
  }
}

function notes({ text, cut }) {
  const lines = [text ? null : "The answer is empty.", cut ? "Cut off at the length limit." : null];
  return lines.filter(Boolean).map((line) => el("p", { class: "note" }, line));
}
