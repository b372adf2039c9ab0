"""Chooses and loads the decoder for a model file and a device."""

from __future__ import annotations

import torch

from millstream.engines.torch.attention import TorchPagedAttention
from millstream.engines.torch.decoder import Decoder
from millstream.engines.torch.llama import TorchLlama, read_llama
from millstream.engines.torch.models import ModelFile
from millstream.engines.torch.weights import open_checkpoint
from millstream.errors import ConfigError

_DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
}


def load_decoder(
    model: ModelFile,
    *,
    num_pages: int,
    page_size: int,
    max_batch: int,
    device: str,
    dtype: str,
    threads: int,
) -> Decoder:
    """Load a model for a device; raises ``ConfigError`` for what cannot be used here."""
    if dtype not in _DTYPES:
        raise ConfigError(f"dtype {dtype!r} is not one of {', '.join(_DTYPES)}")
    torch.set_num_threads(threads)
    place = _device(device)
    checkpoint = open_checkpoint(model)
    attention = TorchPagedAttention(
        checkpoint.config,
        num_pages=num_pages,
        page_size=page_size,
        max_batch=max_batch,
        device=place,
        dtype=_DTYPES[dtype],
    )
    weights = read_llama(checkpoint, _DTYPES[dtype], place)
    return TorchLlama(checkpoint.config, weights, attention)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device 'cuda' is not available on this machine")
    if name not in ("cpu", "cuda"):
        raise ConfigError(f"device {name!r} is not one of auto, cpu, cuda")
    return torch.device(name)
