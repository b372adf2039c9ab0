"""Chooses and loads the decoder for a model file and a device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from millstream.engines.torch.attention import TorchPagedAttention
from millstream.engines.torch.decoder import Decoder, PagedAttention
from millstream.engines.torch.llama import TorchLlama, read_llama
from millstream.engines.torch.model_config import (
    ModelConfig,
    native_attention_fits,
    native_llama_fits,
)
from millstream.engines.torch.models import ModelFile
from millstream.engines.torch.weights import Checkpoint, open_checkpoint
from millstream.errors import ConfigError

_DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
}


@dataclass(frozen=True, slots=True)
class _Wanted:
    num_pages: int
    page_size: int
    max_batch: int
    device: torch.device
    dtype: torch.dtype
    threads: int


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
    """Load a model for a device; raises ``ConfigError`` for what cannot be used here.

    Llama-shaped models run in Rust on the CPU and in few torch operations on CUDA; any other
    decoder-only model of a safetensors directory runs in its transformers class.
    """
    if dtype not in _DTYPES:
        raise ConfigError(f"dtype {dtype!r} is not one of {', '.join(_DTYPES)}")
    torch.set_num_threads(threads)
    wanted = _Wanted(num_pages, page_size, max_batch, _device(device), _DTYPES[dtype], threads)
    on_cpu = wanted.device.type == "cpu"
    if on_cpu and wanted.dtype == torch.float16:
        raise ConfigError("dtype 'float16' needs CUDA")
    checkpoint = open_checkpoint(model)
    if on_cpu and native_llama_fits(checkpoint.config, page_size):
        return _native_llama(checkpoint, wanted)
    attention = _attention(checkpoint.config, wanted)
    if checkpoint.config.llama_shaped:
        weights = read_llama(checkpoint, wanted.dtype, wanted.device)
        return TorchLlama(checkpoint.config, weights, attention)
    # transformers takes seconds to import and most models do not need it.
    from millstream.engines.torch.hf import HfDecoder, load_transformers

    loaded = load_transformers(model, wanted.dtype, wanted.device)
    return HfDecoder(loaded, checkpoint.config, attention)


def _native_llama(checkpoint: Checkpoint, wanted: _Wanted) -> Decoder:
    # Where CUDA does the work the Rust extension need not even be built.
    from millstream.engines.torch.native import NativeLlama

    return NativeLlama(
        checkpoint,
        num_pages=wanted.num_pages,
        max_batch=wanted.max_batch,
        dtype=wanted.dtype,
        threads=wanted.threads,
    )


def _attention(config: ModelConfig, wanted: _Wanted) -> PagedAttention:
    if wanted.device.type == "cpu" and native_attention_fits(config, wanted.page_size):
        from millstream.engines.torch.native import NativePagedAttention

        return NativePagedAttention(
            config,
            num_pages=wanted.num_pages,
            max_batch=wanted.max_batch,
            dtype=wanted.dtype,
            threads=wanted.threads,
        )
    return TorchPagedAttention(
        config,
        num_pages=wanted.num_pages,
        page_size=wanted.page_size,
        max_batch=wanted.max_batch,
        device=wanted.device,
        dtype=wanted.dtype,
    )


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device 'cuda' is not available on this machine")
    if name not in ("cpu", "cuda"):
        raise ConfigError(f"device {name!r} is not one of auto, cpu, cuda")
    return torch.device(name)
