"""An engine that answers by itself, in the way that the test chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from millstream._core import Log
from millstream.engines.base import (
    NO_CONTEXT,
    EndCallback,
    EngineStats,
    ModelInfo,
    RequestContext,
)
from millstream.engines.torch.options import EngineOptions
from millstream.types import Failure, SamplingParams
from tests.unit.streams.parts import ManualEngine


class Words:
    """A tokenizer: one token a word, the end of the vocabulary at 100."""

    context_length = 64
    vocabulary_size = 100
    longest_token = 10_000

    def encode(self, text: str) -> list[int]:
        return [len(word) for word in text.split()]

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        return self.encode(" ".join(message["content"] for message in messages))


def answer(engine: ManualEngine, request: int) -> None:
    """Three tokens and a natural end."""
    for word in ("Paris", ", of", ' "course"'):
        engine.token(request, word)
    engine.finish(request, tokens=3)


def fail(engine: ManualEngine, request: int) -> None:
    """Break while it works on the request."""
    engine.fail(request, Failure("broke", "server_error", "engine_error").to_json())


def refuse(engine: ManualEngine, request: int) -> None:
    """Find fault with the request."""
    engine.fail(request, Failure("no", "invalid_request_error", "invalid_value").to_json())


def lose(engine: ManualEngine, request: int) -> None:
    """Be gone."""
    engine.lose(request)


@dataclass
class ScriptedEngine(ManualEngine):
    """Answers every request with the same words, or does what ``script`` says."""

    model_info: ModelInfo | None = field(
        default_factory=lambda: ModelInfo(
            model="words", context_length=64, cache_tokens=1000, max_batch=3
        )
    )
    script: Callable[[ManualEngine, int], None] = answer
    options: EngineOptions | None = None
    submitted: list[tuple[list[int], SamplingParams]] = field(default_factory=list)
    closed: bool = False
    answers: bool = True
    idle_ns: int = 0

    @property
    def tokenizer(self) -> Words:
        return Words()

    async def close(self) -> None:
        self.closed = True

    def submit(
        self,
        request: int,
        prompt: list[int],
        params: SamplingParams,
        log: Log,
        on_ended: EndCallback,
        *,
        branch: int = 0,
        context: RequestContext = NO_CONTEXT,
    ) -> None:
        super().submit(request, prompt, params, log, on_ended, branch=branch, context=context)
        self.submitted.append((prompt, params))
        asyncio.get_running_loop().call_soon(self.script, self, request)

    async def stats(self) -> EngineStats | None:
        if not self.answers:
            return None
        numbers = dict.fromkeys(EngineStats.__struct_fields__, 0)
        return EngineStats(**numbers | {"running": 2, "pages_total": 9, "idle_ns": self.idle_ns})
