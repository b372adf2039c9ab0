"""The shape of a decoder-only model, from GGUF metadata or a ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millstream.engines.torch.gguf import GgufFile
from millstream.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes and constants that cache, attention and the fused Llama path need."""

    architecture: str
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
    rms_norm_eps: float
    rope_theta: float
    tied_head: bool
    llama_shaped: bool
    """RMS norm, plain rotary positions, SiLU-gated MLP and no biases: the fused path is right."""


def config_from_gguf(file: GgufFile, tensor_names: set[str]) -> ModelConfig:
    """Read the shape from the metadata; raises ``ConfigError`` for other architectures."""
    architecture = file.text("general.architecture")
    if architecture != "llama":
        raise ConfigError(f"{file.path}: architecture {architecture!r} is not supported, use llama")
    if "rope_freqs.weight" in tensor_names:
        raise ConfigError(f"{file.path}: scaled rotary positions are not supported in GGUF files")
    heads = file.integer("llama.attention.head_count")
    hidden = file.integer("llama.embedding_length")
    return ModelConfig(
        architecture=architecture,
        num_layers=file.integer("llama.block_count"),
        hidden_size=hidden,
        intermediate_size=file.integer("llama.feed_forward_length"),
        num_heads=heads,
        num_kv_heads=file.integer("llama.attention.head_count_kv", heads),
        head_dim=file.integer("llama.attention.key_length", hidden // heads),
        vocab_size=file.tensors["token_embd.weight"].shape[0],
        context_length=file.integer("llama.context_length"),
        rms_norm_eps=file.number("llama.attention.layer_norm_rms_epsilon"),
        rope_theta=file.number("llama.rope.freq_base", 10000.0),
        tied_head="output.weight" not in tensor_names,
        llama_shaped=True,
    )


def config_from_transformers(config: Mapping[str, Any]) -> ModelConfig:
    """Read the shape from the members of a ``config.json`` in the transformers form."""
    try:
        heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
        return ModelConfig(
            architecture=str(config["model_type"]),
            num_layers=int(config["num_hidden_layers"]),
            hidden_size=hidden,
            intermediate_size=int(config.get("intermediate_size") or 4 * hidden),
            num_heads=heads,
            num_kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            vocab_size=int(config["vocab_size"]),
            context_length=int(config["max_position_embeddings"]),
            rms_norm_eps=float(config.get("rms_norm_eps", 1e-6)),
            rope_theta=_rope_theta(config),
            tied_head=bool(config.get("tie_word_embeddings", False)),
            llama_shaped=_is_llama_shaped(config),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"config.json is not that of a decoder-only model: {error!r}") from error


def _rope(config: Mapping[str, Any]) -> Mapping[str, Any]:
    return config.get("rope_parameters") or config.get("rope_scaling") or {}


def _rope_theta(config: Mapping[str, Any]) -> float:
    return float(_rope(config).get("rope_theta") or config.get("rope_theta") or 10000.0)


def _is_llama_shaped(config: Mapping[str, Any]) -> bool:
    plain_rope = _rope(config).get("rope_type", "default") == "default"
    biased = config.get("attention_bias", False) or config.get("mlp_bias", False)
    activation = config.get("hidden_act", "silu")
    return config["model_type"] == "llama" and plain_rope and not biased and activation == "silu"


_BLOCK = 32


def native_attention_fits(config: ModelConfig, page_size: int) -> bool:
    """Whether the Rust attention knows a model: pages of 32 tokens, heads in multiples of 32."""
    return page_size == _BLOCK and config.head_dim % _BLOCK == 0


def native_llama_fits(config: ModelConfig, page_size: int) -> bool:
    """Whether the Rust decoder knows a model: Llama-shaped, all widths multiples of 32."""
    widths = (config.hidden_size, config.intermediate_size, config.vocab_size)
    whole = all(width % _BLOCK == 0 for width in widths)
    return config.llama_shaped and whole and native_attention_fits(config, page_size)
