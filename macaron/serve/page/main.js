// The page's start: makes the parts and connects them.

import { Api, ApiError } from "./api.js";
import { Chat } from "./chat.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { el } from "./dom.js";
import { KeyDialog } from "./key.js";
import { notice } from "./notice.js";

const AGAIN_MS = 3000;

const api = new Api();
const keys = new KeyDialog(api);
const chat = new Chat(api, new Conversation(), keys, (running) => (composer.running = running));
const composer = new Composer({ send: (text) => chat.send(text), stop: () => chat.stop() });

document.getElementById("new").addEventListener("click", () => {
  chat.begin();
  composer.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) chat.stop();
});

/** Says which pair serves; asks again while the server starts. */
async function health() {
  const place = document.getElementById("served");
  try {
    const { status, pair, generation } = await api.health();
    const short = el("span", { class: "wide" }, `, pair ${String(pair ?? "").slice(0, 12)}`);
    if (status === "starting") place.replaceChildren("starting");
    else place.replaceChildren(`generation ${generation}`, short);
    if (status === "starting") setTimeout(health, AGAIN_MS);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    place.textContent = "";
    notice(error.message, { label: "Try again", action: () => (notice(null), health()) });
  }
}

composer.focus();
await Promise.all([health(), chat.restore()]);
