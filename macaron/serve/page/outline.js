// An interface's outline as HTML, from JSX or from a JSON tree of components. The code is never
// run: expressions become a dot. The result is as untrusted as the code.

const TAGS = { text: "p", heading: "h2", input: "input", textfield: "input", image: "img" };
const DEEPEST = 24;

/** The elements of the first JSX that the code returns; null: there is none. */
export function markupOfJsx(code) {
  const returned = code.search(/(return|=>)\s*\(?\s*</);
  const begin = returned < 0 ? code.search(/^\s*</) : code.indexOf("<", returned);
  if (begin < 0) return null;
  const markup = withoutExpressions(code.slice(begin)).replace(/<\/?>/g, "");
  const end = markup.lastIndexOf(">");
  return markup.slice(0, end + 1).replace(/<([A-Za-z][\w.]*)([^<>]*?)\/>/g, "<$1$2></$1>");
}

/** Texts between braces stay, values of attributes go, other expressions become a dot. */
function withoutExpressions(code) {
  let kept = "";
  for (let at = 0; at < code.length; at += 1) {
    if (code[at] !== "{") {
      kept += code[at];
      continue;
    }
    const end = closing(code, at);
    kept += kept.endsWith("=") ? '""' : literal(code.slice(at + 1, end));
    at = end;
  }
  return kept;
}

function closing(code, at) {
  for (let depth = 0; at < code.length; at += 1) {
    if (code[at] === "{") depth += 1;
    else if (code[at] === "}" && (depth -= 1) === 0) break;
  }
  return at;
}

function literal(expression) {
  return expression.match(/^\s*(["'`])([^"'`<>]*)\1\s*$/)?.[2] ?? " · ";
}

/** A tree of `{type | component, text | label | title | value, children}`; null: it is none. */
export function markupOfJson(code) {
  try {
    const tree = JSON.parse(code);
    const first = Array.isArray(tree) ? tree[0] : tree;
    return typeOf(first) ? markup(tree, 0) : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function typeOf(node) {
  const type = node?.type ?? node?.component;
  return typeof type === "string" && /^[A-Za-z][\w]*$/.test(type) ? type.toLowerCase() : null;
}

function markup(node, depth) {
  if (depth > DEEPEST || node === null || node === undefined) return "";
  if (Array.isArray(node)) return node.map((one) => markup(one, depth + 1)).join("");
  if (typeof node !== "object") return escaped(String(node));
  const inner = { ...node, ...(typeof node.props === "object" ? node.props : {}) };
  const tag = TAGS[typeOf(node)] ?? typeOf(node) ?? "div";
  const said = escaped(String(inner.text ?? inner.label ?? inner.title ?? inner.value ?? ""));
  if (tag === "input") return `<input placeholder="${said}">`;
  return `<${tag}>${said}${markup(inner.children, depth + 1)}</${tag}>`;
}

function escaped(text) {
  const names = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, (character) => names[character]);
}
