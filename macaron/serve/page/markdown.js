// A small Markdown: text -> blocks. Pure data, so that a streamed text is drawn again only where it
// changed. Nothing in here is HTML: tags in a text are text.

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$/;
const HEADING = /^(#{1,6})[ \t]+(.*?)[ \t]*#*$/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])[ \t]+(.*)$/;
const QUOTE = /^ {0,3}> ?/;
const DIVIDER = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)+\|?[ \t]*$/;
const DEPTH = 5;

/**
 * Blocks: `{kind: "code", language, text}`, `{kind: "heading", level, text}`, `{kind: "rule"}`,
 * `{kind: "list", start, items: [blocks]}` (start is null for bullets), `{kind: "quote", blocks}`,
 * `{kind: "table", rows: [[text]]}` and `{kind: "paragraph", text}`.
 */
export function blocks(text, depth = 0) {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const readers = depth < DEPTH ? [code, heading, rule, list, quote, table] : [];
  const found = [];
  for (let at = 0; at < lines.length; ) {
    if (!lines[at].trim()) at += 1;
    else at = read(readers, lines, at, depth, found);
  }
  return found;
}

/** Each reader gives [block, the line after it] or null. */
function read(readers, lines, at, depth, found) {
  for (const reader of readers) {
    const result = reader(lines, at, depth);
    if (result) return found.push(result[0]), result[1];
  }
  let end = at + 1;
  const starts = readers.length > 0 ? [FENCE, HEADING, ITEM, QUOTE] : [];
  const begins = (line) => starts.some((start) => start.test(line));
  while (end < lines.length && lines[end].trim() && !begins(lines[end])) end += 1;
  found.push({ kind: "paragraph", text: lines.slice(at, end).join("\n").trim() });
  return end;
}

function code(lines, at) {
  const open = lines[at].match(FENCE);
  if (!open) return null;
  const close = new RegExp(`^ {0,3}${open[1][0]}{${open[1].length},}[ \\t]*$`);
  let end = at + 1;
  while (end < lines.length && !close.test(lines[end])) end += 1;
  const language = open[2].trim().split(/\s/)[0].toLowerCase();
  return [{ kind: "code", language, text: lines.slice(at + 1, end).join("\n") }, end + 1];
}

function heading(lines, at) {
  const found = lines[at].match(HEADING);
  return found && [{ kind: "heading", level: found[1].length, text: found[2] }, at + 1];
}

function rule(lines, at) {
  return RULE.test(lines[at]) ? [{ kind: "rule" }, at + 1] : null;
}

function list(lines, at, depth) {
  const first = lines[at].match(ITEM);
  if (!first) return null;
  const ordered = /\d/.test(first[2]);
  const items = [];
  for (let item; (item = lines[at]?.match(ITEM)) && /\d/.test(item[2]) === ordered; ) {
    const end = endOfItem(lines, at + 1);
    const rest = lines.slice(at + 1, end).map((line) => line.replace(/^(\t| {1,4})/, ""));
    items.push(blocks([item[3], ...rest].join("\n"), depth + 1));
    at = end;
  }
  return [{ kind: "list", start: ordered ? parseInt(first[2], 10) : null, items }, at];
}

/** An item goes on over indented lines, and over a blank one that an indented one follows. */
function endOfItem(lines, at) {
  const inside = (line) => /^(\t| {2,})\S/.test(line ?? "");
  while (inside(lines[at]) || (lines[at]?.trim() === "" && inside(lines[at + 1]))) at += 1;
  return lines[at]?.trim() === "" && ITEM.test(lines[at + 1] ?? "") ? at + 1 : at;
}

function quote(lines, at, depth) {
  if (!QUOTE.test(lines[at])) return null;
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return [{ kind: "quote", blocks: blocks(inner.join("\n"), depth + 1) }, end];
}

function table(lines, at) {
  if (!lines[at].includes("|") || !DIVIDER.test(lines[at + 1] ?? "")) return null;
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const rows = [lines[at], ...lines.slice(at + 2, end)];
  return [{ kind: "table", rows: rows.map(cells) }, end];
}

function cells(line) {
  return line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
}
