// Reads a native stream with eventsource-parser over fetch, cuts it after a few tokens, and goes
// on behind the last event that it has seen.

import { createParser } from "eventsource-parser";

const { url, request, cutAfter } = JSON.parse(process.argv[2]);

const ids = [];
let text = "";
let done = false;
let tokens = 0;

async function read(response, until) {
  if (response.status !== 200) throw new Error(`status ${response.status}`);
  const decoder = new TextDecoder();
  const parser = createParser({
    onEvent({ id, event, data }) {
      if (until()) return;
      if (event === "token") {
        text += JSON.parse(data).text;
        tokens += 1;
      }
      if (event === "done") done = JSON.parse(data).outcome;
      if (id !== undefined) ids.push(id);
    },
    onError(error) {
      throw error;
    },
  });
  for await (const chunk of response.body) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    if (until()) return;
  }
}

const cut = new AbortController();
const first = await fetch(`${url}/v1/streams`, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(request),
  signal: cut.signal,
});
await read(first, () => tokens >= cutAfter);
cut.abort();

const second = await fetch(`${url}${linked(first)}`, {
  headers: { "Last-Event-ID": ids.at(-1) },
});
await read(second, () => done);

console.log(JSON.stringify({ text, ids, done }));

function linked(response) {
  return /<([^>]+)>; rel="self"/.exec(response.headers.get("link"))[1];
}
