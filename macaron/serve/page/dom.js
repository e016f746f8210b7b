// Elements, made without markup: a text given to these functions can only ever become a text.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, listeners (`onclick: f`) and children; null ones are left out. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) set(node, name, value);
  node.append(...children.filter((child) => child !== null));
  return node;
}

function set(node, name, value) {
  if (typeof value === "function") node.addEventListener(name.slice(2), value);
  else if (value === true) node.setAttribute(name, "");
  else if (value !== false && value !== null) node.setAttribute(name, value);
}

/** One of the icons that index.html defines; a decoration, so its button needs a name. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/** A button that is no form's. */
export function button(attributes, ...children) {
  return el("button", { type: "button", ...attributes }, ...children);
}
