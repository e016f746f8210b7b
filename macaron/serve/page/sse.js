// Server-sent events of a response's body: each event's data, as JSON. Comments and [DONE] are
// passed over.

/** The events of a stream of bytes, as they come in. */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    yield* blocks.map(dataOf).filter((data) => data !== null);
  }
}

function dataOf(block) {
  const lines = block.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  const data = lines.map((line) => line.slice(5).trim()).join("\n");
  return data && data !== "[DONE]" ? JSON.parse(data) : null;
}
