"""A small random Llama model on disk, in the form of a transformers directory."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from millstream.engines.torch.models import ModelFile, resolve_model

TINY = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 320,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
}


def write_tiny_llama(directory: Path, **changes: object) -> ModelFile:
    """Write a model of fixed random weights; ``changes`` replace members of its config."""
    config = TINY | changes
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    save_file(_tensors(config), directory / "model.safetensors", metadata={"format": "pt"})
    return resolve_model(str(directory))


def _tensors(config: dict[str, object]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(11)

    def matrix(*shape: object) -> torch.Tensor:
        sizes = [int(str(size)) for size in shape]
        return torch.randn(sizes, generator=generator) * 0.15

    hidden, intermediate = config["hidden_size"], config["intermediate_size"]
    width = int(str(config["head_dim"]))
    queries = int(str(config["num_attention_heads"])) * width
    keys = int(str(config["num_key_value_heads"])) * width
    tensors = {
        "model.embed_tokens.weight": matrix(config["vocab_size"], hidden),
        "model.norm.weight": matrix(hidden) + 1,
        "lm_head.weight": matrix(config["vocab_size"], hidden),
    }
    for layer in range(int(str(config["num_hidden_layers"]))):
        block = f"model.layers.{layer}"
        tensors |= {
            f"{block}.input_layernorm.weight": matrix(hidden) + 1,
            f"{block}.self_attn.q_proj.weight": matrix(queries, hidden),
            f"{block}.self_attn.k_proj.weight": matrix(keys, hidden),
            f"{block}.self_attn.v_proj.weight": matrix(keys, hidden),
            f"{block}.self_attn.o_proj.weight": matrix(hidden, queries),
            f"{block}.post_attention_layernorm.weight": matrix(hidden) + 1,
            f"{block}.mlp.gate_proj.weight": matrix(intermediate, hidden),
            f"{block}.mlp.up_proj.weight": matrix(intermediate, hidden),
            f"{block}.mlp.down_proj.weight": matrix(hidden, intermediate),
        }
    return tensors
