// A plain preview of an interface that a model wrote: its elements and texts, without its scripts,
// styles, addresses and behaviour. It is shown in a frame of no origin where nothing may run or
// load; what is removed before that is removed for quiet, the frame is the fence.

import { el } from "./dom.js";
import { markupOfJson, markupOfJsx } from "./outline.js";

// The page's own policy has the hash of this file and comes first, so that no other style is taken.
const STYLE = new URL("preview.css", import.meta.url);
const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'";
const GONE =
  "script,style,link,meta,base,template,noscript,iframe,frame,frameset,object,embed,portal";
const KEPT = new Set([
  "type", "title", "alt", "value", "placeholder", "checked", "disabled", "selected", "open", "rows",
  "cols", "min", "max", "step", "colspan", "rowspan", "for", "id", "start", "scope", "lang", "dir",
  "label", "role", "viewbox", "d", "x", "y", "cx", "cy", "r", "width", "height", "fill", "stroke",
]);

/** Markup to preview, in HTML; null where the code is no interface. */
export function markupOf(language, code) {
  const kind = language.split("/").at(-1);
  if (kind === "html" || kind === "htm" || kind === "svg") return code;
  if (kind === "tsx" || kind === "jsx") return markupOfJsx(code);
  return kind === "json" ? markupOfJson(code) : null;
}

/** A frame that shows the markup's elements and texts. */
export function frameOf(name, markup) {
  return fenced(name, plain(markup));
}

/** A frame in which no markup, whatever it is, can run, load or reach anything. */
export function fenced(name, markup) {
  const frame = el("iframe", { sandbox: "", title: `Preview of ${name}, without scripts` });
  style().then((css) => (frame.srcdoc = pageOf(css, markup)));
  return frame;
}

async function style() {
  const response = await fetch(STYLE).catch(() => null);
  return response?.ok ? response.text() : "";
}

function pageOf(css, body) {
  return (
    `<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" ` +
    `content="${POLICY}"><style>${css}</style><body>${body}`
  );
}

/**
 * Parsed in a document of its own that is never shown, so that nothing runs or loads here. Browsers
 * write a line to the console for each handler that they refuse.
 */
function plain(markup) {
  const inert = new DOMParser().parseFromString(markup, "text/html");
  inert.querySelectorAll(GONE).forEach((node) => node.remove());
  inert.body.querySelectorAll("*").forEach(simplify);
  return inert.body.innerHTML;
}

function simplify(node) {
  const said = node.getAttribute("title") ?? node.getAttribute("label") ?? "";
  for (const { name } of [...node.attributes]) {
    if (!KEPT.has(name.toLowerCase())) node.removeAttribute(name);
  }
  if (!(node instanceof HTMLUnknownElement)) return;
  node.setAttribute("class", "component");
  node.setAttribute("data-name", said ? `${node.localName}: ${said}` : node.localName);
}
