// What the user says of an answer. A button shows a state only after the server has kept it.

import { button, el, icon } from "./dom.js";

/** The row under an answer; `say(changes)` sends feedback, puts it into the turn, or throws. */
export function feedbackRow(turn, say) {
  const status = el("span", { class: "saved", role: "status" });
  const row = el("div", { class: "feedback", role: "group", "aria-label": "Feedback on this answer" });
  const send = async (changes) => {
    try {
      await say(changes);
      status.textContent = "Saved";
      return true;
    } catch (error) {
      status.textContent = `Not saved: ${error.message}`;
      return false;
    } finally {
      row.dispatchEvent(new Event("refresh"));
    }
  };
  row.append(...rating(row, turn, send), ...outcome(row, turn, send), ...correction(row, turn, send), status);
  row.dispatchEvent(new Event("refresh"));
  return row;
}

function rating(row, turn, send) {
  const thumb = (value, name, label) =>
    pressed(row, () => turn.feedback.rating === value, { class: "thumb", "aria-label": label, title: label }, icon(name),
      () => send({ rating: turn.feedback.rating === value ? 0 : value }));
  return [thumb(1, "up", "Good answer"), thumb(-1, "down", "Bad answer")];
}

function outcome(row, turn, send) {
  const result = (value, label) =>
    pressed(row, () => turn.feedback.outcome === value, { class: "quiet" }, label, () => send({ outcome: value }));
  return [result("success", "It worked"), result("failure", "It failed")];
}

function pressed(row, isPressed, attributes, content, onclick) {
  const one = button({ ...attributes, onclick }, content);
  row.addEventListener("refresh", () => one.setAttribute("aria-pressed", String(isPressed())));
  return one;
}

function correction(row, turn, send) {
  const open = button({ class: "quiet", "aria-expanded": "false" }, "Correct");
  row.addEventListener("refresh", () => (open.textContent = turn.feedback.correction ? "Corrected" : "Correct"));
  const close = () => {
    row.querySelector("form")?.remove();
    open.setAttribute("aria-expanded", "false");
    open.focus();
  };
  open.addEventListener("click", () => {
    if (row.querySelector("form")) return close();
    row.append(form(turn, send, close));
    open.setAttribute("aria-expanded", "true");
    row.querySelector("textarea").focus();
  });
  return [open];
}

function form(turn, send, close) {
  const box = el("textarea", { rows: "5" });
  box.value = turn.feedback.correction ?? turn.text;
  box.setSelectionRange(0, 0);
  const onsubmit = async (event) => {
    event.preventDefault();
    const unchanged = box.value.trim() === "" || box.value === (turn.feedback.correction ?? turn.text);
    if (unchanged || (await send({ correction: box.value }))) close();
  };
  const onkeydown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit();
    if (event.key === "Escape") event.stopPropagation(), close();
  };
  const label = el("label", {}, "The answer that you wanted instead", box);
  const save = el("button", { type: "submit", class: "primary" }, "Save correction");
  const buttons = el("div", { class: "buttons" }, save, button({ class: "quiet", onclick: close }, "Cancel"));
  return el("form", { class: "correction", onsubmit, onkeydown }, label, buttons);
}
