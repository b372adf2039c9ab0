"""A stream that is read in two halves, as by a process that was restarted in between.

    make serve
    python -m examples.resume http://127.0.0.1:8000

The first reader stops after some words and leaves; the generation goes on without it. The second
one, which knows only the stream's id and where the first one was, gets the rest. Both check what
they read, and come back by themselves when their connection is cut.
"""

from __future__ import annotations

import sys

from millstream.client import Client

QUESTION = [{"role": "user", "content": "Tell me about the river Rhine."}]


def main(base_url: str) -> None:
    """Print the answer, with a bar where the second reader took over."""
    with Client(base_url) as client:
        with client.stream(
            model="smollm2-135m-instruct", messages=QUESTION, temperature=0, max_tokens=60
        ) as first:
            for count, text in enumerate(first, 1):
                print(text, end="", flush=True)
                if count == 12:
                    break
        stream_id, last_event_id = first.id, first.last_event_id
        assert stream_id is not None  # noqa: S101 - it has given text

        print(" | ", end="", flush=True)
        second = client.follow(stream_id, after=last_event_id)
        for text in second:
            print(text, end="", flush=True)
        print(f"\n[{second.outcome}, {second.connections} connection]")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000")
