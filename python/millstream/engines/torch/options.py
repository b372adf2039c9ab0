"""What an engine process is started with; it travels to it as JSON."""

from __future__ import annotations

import msgspec

from millstream.errors import ConfigError

PAGE_SIZE = 32
"""Tokens in a page of the key-value cache."""


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one torch engine; engines with equal options are one process."""

    model: str
    """A packaged model, a directory of safetensors, or a .gguf file."""
    dtype: str = "bfloat16"
    device: str = "auto"
    threads: int = 2
    max_batch: int = 32
    """Most sequences in one step."""
    kv_tokens: int = 32768
    """Tokens that the key-value cache holds, over all sequences."""
    max_step_tokens: int = 0
    """Most tokens in one step: bounds how long a prompt can hold up the others' decoding.

    0 chooses by the device: see `step_tokens`.
    """
    reserve_output_tokens: int = 256
    """Output that admission expects of a sequence before it has seen any finish."""

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ConfigError("threads must be at least 1")
        if self.max_batch < 1:
            raise ConfigError("max_batch must be at least 1")
        if self.kv_tokens < 2 * PAGE_SIZE:
            raise ConfigError(f"kv_tokens must be at least {2 * PAGE_SIZE}")
        if 0 != self.max_step_tokens <= self.max_batch:
            # A full batch of decodes would leave nothing for prompts.
            raise ConfigError("max_step_tokens must be above max_batch")

    @property
    def num_pages(self) -> int:
        """Pages in the key-value cache."""
        return self.kv_tokens // PAGE_SIZE

    def step_tokens(self, *, accelerated: bool) -> int:
        """Most tokens in one step: enough to keep the device busy, few enough to be over soon."""
        if self.max_step_tokens:
            return self.max_step_tokens
        return max(2048 if accelerated else 128, 2 * self.max_batch)

    def to_json(self) -> str:
        """The options as one JSON object, for a command line."""
        return msgspec.json.encode(self, order="deterministic").decode()

    @classmethod
    def from_json(cls, text: str) -> EngineOptions:
        """The options that `to_json` wrote; raises `ConfigError`."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.ValidationError as error:
            raise ConfigError(f"engine options: {error}") from error
