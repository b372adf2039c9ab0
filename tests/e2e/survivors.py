"""Clients that do not give up: each follows its stream to a typed end, whatever is killed."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from millstream import SseEvent, SseParser

ATTEMPTS = 80
PAUSE_SECONDS = 0.5


@dataclass
class Survivor:
    """One stream as its client saw it."""

    prompt: str
    text: str = ""
    stream_id: str = ""
    last_id: str = ""
    end: str = ""
    """The outcome that ``done`` told, or what else ended it: ``refused 503``, ``gone 404``."""
    reconnects: int = 0
    faults: list[str] = field(default_factory=list)
    """What must never happen: a record twice, out of order, or left out in silence."""

    def take(self, event: SseEvent) -> None:
        """One event of the stream."""
        data = json.loads(event.data)
        if event.id and event.id != self.last_id:
            self._check_order(event)
            self.last_id = event.id
        match event.event:
            case "token":
                self.text += data["text"]
            case "gap":
                self.faults.append(f"gap {data}")
            case "done":
                self.end = data["outcome"]

    def _check_order(self, event: SseEvent) -> None:
        epoch, seq = (int(part) for part in event.id.split("-"))
        before = [int(part) for part in self.last_id.split("-")] if self.last_id else [epoch, 0]
        if epoch > before[0] and event.event == "error" and seq <= before[1] + 1:
            return  # what its producer had given out, and not stored, is lost to the others only
        if epoch < before[0] or seq != before[1] + 1:
            self.faults.append(f"{event.id} after {self.last_id}")


@dataclass
class Crowd:
    """Many survivors at once on one server."""

    url: str
    max_tokens: int
    on_token: Callable[[], None]
    survivors: list[Survivor] = field(default_factory=list)

    async def run(self, prompts: list[str]) -> None:
        """Open a stream for each prompt and follow all of them to their ends."""
        self.survivors = [Survivor(prompt) for prompt in prompts]
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=self.url, timeout=120, limits=limits) as client:
            await asyncio.gather(*(self._follow(client, one) for one in self.survivors))

    def ends(self) -> Counter[str]:
        """How many streams ended in which way."""
        return Counter(one.end for one in self.survivors)

    async def _follow(self, client: httpx.AsyncClient, one: Survivor) -> None:
        for _ in range(ATTEMPTS):
            try:
                async with client.stream(**self._request(one)) as response:
                    await self._read(response, one)
            except httpx.TransportError:
                pass
            if one.end:
                return
            one.reconnects += 1
            await asyncio.sleep(PAUSE_SECONDS)
        one.end = "never ended"

    def _request(self, one: Survivor) -> dict[str, Any]:
        if one.stream_id:
            headers = {"last-event-id": one.last_id} if one.last_id else {}
            return {"method": "GET", "url": f"/v1/streams/{one.stream_id}", "headers": headers}
        body = completion(one.prompt, max_tokens=self.max_tokens)
        return {"method": "POST", "url": "/v1/streams", "json": body}

    async def _read(self, response: httpx.Response, one: Survivor) -> None:
        if response.status_code != 200:
            refused = "gone" if one.stream_id else "refused"
            one.end = f"{refused} {response.status_code}"
            return
        one.stream_id = response.headers["x-stream-id"]
        parser = SseParser()
        async for data in response.aiter_raw():
            for event in parser.feed(data):
                one.take(event)
                self.on_token()


def completion(prompt: str, *, max_tokens: int) -> dict[str, object]:
    """The body of a stream whose text is always the same."""
    return {
        "model": "chat",
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "ignore_eos": True,
        "max_tokens": max_tokens,
    }
