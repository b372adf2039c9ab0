// Streams a resumable chat completion with openai-node, cuts it after a few chunks, and reads on
// behind the last chunk with the same library.

import OpenAI from "openai";

const { url, request, cutAfter } = JSON.parse(process.argv[2]);

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });

const ids = [];
let text = "";
let finish = null;
let settled = null;

function take(chunk) {
  if (chunk.choices.length === 0) {
    settled = chunk.stream.settled;
    return;
  }
  ids.push(`1-${chunk.stream.seq}`);
  text += chunk.choices[0]?.delta?.content ?? "";
  finish = chunk.choices[0]?.finish_reason ?? finish;
}

const { data: first, response } = await client.chat.completions
  .create({
    ...request,
    stream: true,
    stream_options: { resumable: true, include_metadata: true },
  })
  .withResponse();
const streamId = response.headers.get("x-stream-id");

for await (const chunk of first) {
  take(chunk);
  if (ids.length >= cutAfter) break; // leaving the loop aborts the request
}

const second = await client.get(`/streams/${streamId}`, {
  headers: { "Last-Event-ID": ids.at(-1) },
  stream: true,
});
for await (const chunk of second) take(chunk);

console.log(JSON.stringify({ text, ids, settled, done: finish }));
