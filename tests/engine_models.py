"""Models to compare with: a small random Llama on disk, the packaged one in transformers."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

from millstream.engines.torch.models import ModelFile, resolve_model
from millstream.engines.torch.weights import open_checkpoint

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
    }
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = matrix(config["vocab_size"], hidden)
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


def packaged_as_transformers(dtype: torch.dtype) -> LlamaForCausalLM:
    """The packaged model in transformers."""
    return as_transformers(resolve_model("smollm2-135m-instruct"), dtype)


def as_transformers(model_file: ModelFile, dtype: torch.dtype) -> LlamaForCausalLM:
    """transformers' own class on our tensors (``test_weights.py`` shows that they are right)."""
    checkpoint = open_checkpoint(model_file)
    shape = checkpoint.config
    config = LlamaConfig(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_kv_heads,
        max_position_embeddings=shape.context_length,
        rms_norm_eps=shape.rms_norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        tie_word_embeddings=shape.tied_head,
        eos_token_id=None,
        dtype=dtype,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    tensors = {name: checkpoint.tensor(name, dtype) for name in checkpoint.names()}
    model.to_empty(device="cpu")
    model.train(mode=False)
    missing = model.load_state_dict(tensors, strict=False, assign=True)
    assert missing.missing_keys in ([], ["lm_head.weight"])
    model.tie_weights()
    # The rotary frequencies are no weights: built again after the empty device.
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model
