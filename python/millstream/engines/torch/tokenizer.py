"""Text to ids and back, and the chat template, as the model's file means them; without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from millstream.engines.torch.chat_template import ChatTemplate
from millstream.engines.torch.gguf import GgufFile
from millstream.engines.torch.vocabulary import token_bytes
from millstream.errors import ConfigError

# Families that split every digit off before GPT-2's pattern (llama.cpp's LLAMA_VOCAB_PRE_TYPE_*).
_DIGITS_FIRST = frozenset({"smollm", "starcoder", "refact", "command-r"})
_GPT2 = frozenset({"gpt-2", "default"})
_CONTROL, _USER_DEFINED = 3, 4


@dataclass(frozen=True, slots=True)
class _Parts:
    backend: Backend
    template: str | None
    eos_ids: frozenset[int]
    bos_id: int | None
    prefix: tuple[int, ...]
    context_length: int


class Tokenizer:
    """A model's tokenizer; build it with ``load``."""

    def __init__(self, parts: _Parts) -> None:
        self._backend = parts.backend
        self._template = parts.template
        self._prefix = list(parts.prefix)
        self._bos_id = parts.bos_id
        self.eos_ids = parts.eos_ids
        self.context_length = parts.context_length
        """Most tokens of prompt and completion together."""

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a ``.gguf`` file or a directory with ``tokenizer.json``; raises ``ConfigError``."""
        parts = _from_directory(path) if path.is_dir() else _from_gguf(GgufFile(path))
        return cls(parts)

    def encode(self, text: str) -> list[int]:
        """Ids of plain text, with the start token if the model wants one."""
        return self._prefix + self._ids(text, add_special_tokens=True)

    def render_chat(
        self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True
    ) -> str:
        """The prompt text of a chat by the model's own template.

        Raises ``ConfigError`` if the model has none, ``InvalidParameter`` if it refuses.
        """
        if self._chat is None:
            raise ConfigError("this model has no chat template")
        return self._chat.render(messages, add_generation_prompt=add_generation_prompt)

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Ids of a chat's prompt; the template writes every special token itself."""
        return self._ids(self.render_chat(messages), add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids without the special tokens."""
        return self._backend.decode(list(ids), skip_special_tokens=True)

    def vocabulary_bytes(self) -> list[bytes]:
        """What each id stands for in the output; special tokens stand for their own text."""
        return token_bytes(self._backend)

    @property
    def vocabulary_size(self) -> int:
        """Ids are below this."""
        return self._backend.get_vocab_size()

    @cached_property
    def longest_token(self) -> int:
        """Characters: a text of n tokens has at most n times as many."""
        return max(map(len, self._backend.get_vocab()))

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids that produce no text."""
        added = self._backend.get_added_tokens_decoder()
        return frozenset(index for index, token in added.items() if token.special)

    def _ids(self, text: str, *, add_special_tokens: bool) -> list[int]:
        # The batch call alone lets other threads run meanwhile, and this one leaves out offsets:
        # half a megabyte of digits held the interpreter for 1.8 s with `encode`.
        (encoding,) = self._backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        return encoding.ids

    @cached_property
    def _chat(self) -> ChatTemplate | None:
        if self._template is None:
            return None
        eos = min(self.eos_ids, default=None)
        return ChatTemplate(self._template, bos=self._text(self._bos_id), eos=self._text(eos))

    def _text(self, token: int | None) -> str:
        return "" if token is None else self._backend.id_to_token(token) or ""


def _from_gguf(file: GgufFile) -> _Parts:
    eos = {file.integer("tokenizer.ggml.eos_token_id")}
    eos.add(file.integer("tokenizer.ggml.eot_token_id", min(eos)))
    bos = file.metadata.get("tokenizer.ggml.bos_token_id")
    bos_id = bos if isinstance(bos, int) else None
    wants_bos = file.metadata.get("tokenizer.ggml.add_bos_token", False) is True
    template = file.metadata.get("tokenizer.chat_template")
    architecture = file.text("general.architecture")
    return _Parts(
        backend=_gguf_backend(file),
        template=template if isinstance(template, str) else None,
        eos_ids=frozenset(eos),
        bos_id=bos_id,
        prefix=(bos_id,) if wants_bos and bos_id is not None else (),
        context_length=file.integer(f"{architecture}.context_length"),
    )


def _gguf_backend(file: GgufFile) -> Backend:
    if (kind := file.text("tokenizer.ggml.model")) != "gpt2":
        raise ConfigError(f"{file.path}: tokenizer model {kind!r} is not supported, only 'gpt2'")
    tokens = file.strings("tokenizer.ggml.tokens")
    merges = [_merge(file, line) for line in file.strings("tokenizer.ggml.merges")]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    backend = Backend(models.BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = _pre_tokenizer(file)
    backend.decoder = decoders.ByteLevel()
    kinds = file.integers("tokenizer.ggml.token_type")
    marked = [(token, kind) for token, kind in zip(tokens, kinds, strict=True)]
    backend.add_special_tokens([_added(token, True) for token, kind in marked if kind == _CONTROL])
    backend.add_tokens([_added(token, False) for token, kind in marked if kind == _USER_DEFINED])
    return backend


def _merge(file: GgufFile, line: str) -> tuple[str, str]:
    left, space, right = line.partition(" ")
    if not space:
        raise ConfigError(f"{file.path}: merge {line!r} has no two parts")
    return left, right


def _added(text: str, special: bool) -> AddedToken:
    return AddedToken(text, special=special, normalized=False)


def _pre_tokenizer(file: GgufFile) -> pre_tokenizers.PreTokenizer:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    family = file.text("tokenizer.ggml.pre", "default")
    if family in _GPT2:
        return byte_level
    if family in _DIGITS_FIRST:
        digits = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([digits, byte_level])
    raise ConfigError(
        f"{file.path}: pre-tokenizer {family!r} is not supported; "
        "use a directory with tokenizer.json"
    )


def _from_directory(path: Path) -> _Parts:
    source = path / "tokenizer.json"
    if not source.is_file():
        raise ConfigError(f"model directory {path} has no tokenizer.json")
    backend = Backend.from_file(str(source))
    # Files made for training truncate and pad without a word, which would change prompts.
    backend.no_truncation()
    backend.no_padding()
    config, settings = _json(path / "config.json"), _json(path / "tokenizer_config.json")
    generation = _json(path / "generation_config.json")
    eos = generation.get("eos_token_id", config.get("eos_token_id"))
    bos = settings.get("bos_token")
    return _Parts(
        backend=backend,
        template=_directory_template(path, settings),
        eos_ids=frozenset(eos if isinstance(eos, list) else [] if eos is None else [eos]),
        bos_id=backend.token_to_id(_content(bos)) if bos else None,
        prefix=(),
        context_length=int(config.get("max_position_embeddings", 2048)),
    )


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    return value if isinstance(value, dict) else {}


def _content(token: object) -> str:
    return str(token.get("content", "")) if isinstance(token, dict) else str(token)


def _directory_template(path: Path, settings: Mapping[str, Any]) -> str | None:
    separate = path / "chat_template.jinja"
    if separate.is_file():
        return separate.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("default")
    return template if isinstance(template, str) else None
