// Follows a stream with @microsoft/fetch-event-source. Its connection is cut by the server's side
// (a proxy that the test holds), and the library comes back by itself with its last-event-id.

import { createRequire } from "node:module";

// The library is written for browsers and asks them for these.
globalThis.window = globalThis;
globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };

const { fetchEventSource } = createRequire(import.meta.url)("@microsoft/fetch-event-source");

const { url, request } = JSON.parse(process.argv[2]);

const made = await fetch(`${url}/v1/streams`, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ ...request, stream: false }),
});
const { url: path } = await made.json();

const ids = [];
let text = "";
let done = false;
let connections = 0;
const finished = new AbortController();

await fetchEventSource(url + path, {
  signal: finished.signal,
  async onopen(response) {
    connections += 1;
    if (response.status !== 200) throw new Error(`status ${response.status}`);
  },
  onmessage({ id, event, data }) {
    ids.push(id);
    if (event === "token") text += JSON.parse(data).text;
    if (event === "done") {
      done = JSON.parse(data).outcome;
      finished.abort();
    }
  },
  onerror() {
    if (connections > 5) throw new Error("no way through");
    return 1;
  },
});

console.log(JSON.stringify({ text, ids: ids.filter(Boolean), done, connections }));
