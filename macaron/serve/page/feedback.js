// What the user says of an answer. A button shows a state only after the server has kept it.

import { button, el, icon } from "./dom.js";

/** The row under an answer; `say(changes)` sends feedback, puts it into the turn, or throws. */
export function feedbackRow(turn, say) {
  const status = el("span", { class: "saved", role: "status" });
  const group = { class: "feedback", role: "group", "aria-label": "Feedback on this answer" };
  const row = el("div", group);
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
  row.append(...[rating, outcome, correction].flatMap((part) => part(row, turn, send)), status);
  row.dispatchEvent(new Event("refresh"));
  return row;
}

function rating(row, turn, send) {
  const thumb = (value, name, label) => {
    const given = () => turn.feedback.rating === value;
    const onclick = () => send({ rating: given() ? 0 : value });
    const attributes = { class: "thumb", "aria-label": label, title: label, onclick };
    return pressed(row, given, button(attributes, icon(name)));
  };
  return [thumb(1, "up", "Good answer"), thumb(-1, "down", "Bad answer")];
}

function outcome(row, turn, send) {
  const result = (value, label) => {
    const onclick = () => send({ outcome: value });
    const given = () => turn.feedback.outcome === value;
    return pressed(row, given, button({ class: "quiet", onclick }, label));
  };
  return [result("success", "It worked"), result("failure", "It failed")];
}

function pressed(row, given, one) {
  row.addEventListener("refresh", () => one.setAttribute("aria-pressed", String(given())));
  return one;
}

function correction(row, turn, send) {
  const open = button({ class: "quiet", "aria-expanded": "false" }, "Correct");
  row.addEventListener("refresh", () => {
    open.textContent = turn.feedback.correction ? "Corrected" : "Correct";
  });
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
  const before = turn.feedback.correction ?? turn.text;
  box.value = before;
  box.setSelectionRange(0, 0);
  const onsubmit = async (event) => {
    event.preventDefault();
    const unchanged = box.value.trim() === "" || box.value === before;
    if (unchanged || (await send({ correction: box.value }))) close();
  };
  const onkeydown = (event) => {
    const whole = event.key === "Enter" && (event.ctrlKey || event.metaKey);
    if (whole) event.currentTarget.requestSubmit();
    if (event.key === "Escape") event.stopPropagation(), close();
  };
  const label = el("label", {}, "The answer that you wanted instead", box);
  const save = el("button", { type: "submit", class: "primary" }, "Save correction");
  const cancel = button({ class: "quiet", onclick: close }, "Cancel");
  const buttons = el("div", { class: "buttons" }, save, cancel);
  return el("form", { class: "correction", onsubmit, onkeydown }, label, buttons);
}
