"""The values that cross module borders: outcomes, kinds, parameters, usage, failures."""

from __future__ import annotations

from enum import IntEnum, StrEnum

import msgspec


class Outcome(StrEnum):
    """How a stream ended: every stream has exactly one."""

    COMPLETED = "completed"
    LENGTH = "length"
    CANCELLED = "cancelled"
    CLIENT_GONE = "client_gone"
    SHED = "shed"
    TIMEOUT_FIRST_TOKEN = "timeout_first_token"  # noqa: S105 - an outcome, not a secret
    TIMEOUT_IDLE = "timeout_idle"
    TIMEOUT_TOTAL = "timeout_total"
    UPSTREAM_ERROR = "upstream_error"
    ENGINE_LOST = "engine_lost"
    INVALID_OUTPUT = "invalid_output"


class Kind(IntEnum):
    """What a record says; the values are those of the ring (``rust/core/src/record.rs``)."""

    TOKEN = 1
    FINISH = 2
    USAGE = 3
    ERROR = 4
    END = 5
    HANDOVER = 6
    BRANCH_END = 7


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """How one request is sampled.

    ``temperature`` 0 is greedy; ``top_k`` 0 and ``top_p`` 1 and ``min_p`` 0 switch a filter off;
    ``max_tokens`` counts generated tokens of each of the ``n`` choices. Values are checked at the
    HTTP border, not here.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    n: int = 1
    ignore_eos: bool = False


class Usage(msgspec.Struct, frozen=True):
    """What a stream cost, in tokens of the engine's tokenizer."""

    prompt_tokens: int
    completion_tokens: int

    def to_dict(self) -> dict[str, int]:
        """OpenAI's usage object."""
        total = self.prompt_tokens + self.completion_tokens
        return {**msgspec.structs.asdict(self), "total_tokens": total}

    def to_json(self) -> str:
        """The compact JSON text of a usage record."""
        return msgspec.json.encode(self.to_dict()).decode()

    @classmethod
    def from_json(cls, text: str) -> Usage:
        """The cost that a usage record carries; raises `msgspec.DecodeError` on other text."""
        return msgspec.json.decode(text, type=cls)


class Settlement(msgspec.Struct, frozen=True):
    """What a stream was charged in the end, in tokens, all its branches together.

    ``reserved`` was held for it meanwhile. ``partial`` says that it did not come to its own end,
    and ``remaining_tokens`` what is then left in the tightest scope, None for no limit.
    """

    charged: int
    reserved: int
    partial: bool
    remaining_tokens: int | None

    def to_json(self) -> str:
        """The compact JSON text that stands in a terminal record."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Settlement:
        """The figures of a terminal record; raises `msgspec.DecodeError` on other text."""
        return msgspec.json.decode(text, type=cls)


class Failure(msgspec.Struct, frozen=True):
    """OpenAI's error object; ``code`` is stable and machine-readable."""

    message: str
    type: str
    code: str
    param: str | None = None

    def to_json(self) -> str:
        """The compact JSON text of an error record."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Failure:
        """The failure that an error record carries; raises `msgspec.DecodeError` on other text."""
        return msgspec.json.decode(text, type=cls)
