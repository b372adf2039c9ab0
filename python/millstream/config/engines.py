"""What turns requests into tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from millstream.config.section import Section

DEMO_MODEL = "smollm2-135m-instruct"


class TorchEngineSettings(Section):
    """A torch engine process: one model, shared by every worker."""

    kind: Literal["torch"] = "torch"
    """Which engine this is."""
    model: Annotated[str, Field(min_length=1)] = DEMO_MODEL
    """A packaged model's name, a directory of safetensors, or a .gguf file."""
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    """Number format of weights and cache; `auto` is bfloat16."""
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    """`auto` (CUDA if there is one), `cpu`, `cuda` or `cuda:1`."""
    threads: Annotated[int | None, Field(ge=1, le=1024)] = None
    """CPU threads of the engine; unset is one for each core that the server may use."""
    max_batch: Annotated[int, Field(ge=1, le=256)] = 32
    """Most requests that one step decodes together."""
    kv_tokens: Annotated[int, Field(ge=256, le=1 << 28)] = 32768
    """Tokens that the key-value cache holds, over all requests together."""
