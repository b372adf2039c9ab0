"""What bytes each token id stands for, for the incremental detokenizer."""

from __future__ import annotations

import json
import re
from typing import Any

from tokenizers import Tokenizer as Backend

from millstream.errors import ConfigError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")
_SPACE = "▁"


def token_bytes(backend: Backend) -> list[bytes]:
    """Bytes of every id, ``b""`` for ids that do not exist.

    Raises ``ConfigError`` for decoders other than byte level and byte fallback: what they make of
    a token depends on its neighbours.
    """
    decoder = json.loads(backend.to_str())["decoder"]
    kinds = _decoder_kinds(decoder)
    if "ByteLevel" in kinds:
        convert = _byte_level
    elif "ByteFallback" in kinds:
        convert = _byte_fallback
    else:
        raise ConfigError(f"tokenizer decoder {sorted(kinds)} is not supported")
    added = backend.get_added_tokens_decoder()
    table = [b""] * (max(backend.get_vocab().values(), default=-1) + 1)
    for token, index in backend.get_vocab().items():
        table[index] = token.encode() if index in added else convert(token)
    return table


def _decoder_kinds(decoder: Any) -> set[str]:
    if not isinstance(decoder, dict):
        return set()
    kinds = {str(decoder.get("type"))}
    for inner in decoder.get("decoders", ()):
        kinds |= _decoder_kinds(inner)
    return kinds


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's alphabet: printable bytes stand for themselves, the others follow from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(256 + position): byte for position, byte in enumerate(others)}


_ALPHABET = _byte_alphabet()


def _byte_level(token: str) -> bytes:
    try:
        return bytes([_ALPHABET[character] for character in token])
    except KeyError:
        return token.encode()


def _byte_fallback(token: str) -> bytes:
    if match := _BYTE_TOKEN.match(token):
        return bytes([int(match[1], 16)])
    return token.replace(_SPACE, " ").encode()
