"""From messages or a prompt to something that a tokenizer can encode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from millstream.api.schemas import Message, TextPart
from millstream.errors import InvalidParameter, UnsupportedParameter

if TYPE_CHECKING:
    from millstream.engines.base import Tokenizer

# Newer clients say "developer" where the models' own templates know "system".
_TEMPLATE_ROLES = {"developer": "system"}
_IGNORED_OF_A_MESSAGE = frozenset({"name", "refusal"})
_IGNORED_OF_A_PART = frozenset({"cache_control"})


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is to continue; ``encode`` may run in a thread and raises `RequestError`."""

    encode: Callable[[Tokenizer], list[int]]
    characters: int
    """Of the text; 0 where it came in tokens."""
    field: Literal["messages", "prompt", "input"]


def chat_prompt(messages: list[Message]) -> Prompt:
    """A conversation; raises `RequestError` for the first message that cannot be shown whole."""
    turns = [_turn(index, message) for index, message in enumerate(messages)]
    return Prompt(
        lambda tokenizer: tokenizer.encode_chat(turns),
        sum(len(text) for turn in turns for text in turn.values()),
        "messages",
    )


def text_prompt(prompt: str | list[int] | list[str]) -> Prompt:
    """A text or token ids; raises `RequestError` for more than one text."""
    alone = _alone(prompt)
    characters = len(alone) if isinstance(alone, str) else 0
    return Prompt(lambda tokenizer: _encode(tokenizer, alone), characters, "prompt")


def _turn(index: int, message: Message) -> dict[str, str]:
    where = f"messages[{index}]"
    _refuse_unknown(where, message.model_extra, _IGNORED_OF_A_MESSAGE)
    content = message.content
    if content is None:
        raise InvalidParameter(f"{where}.content: must be a text.", param=f"{where}.content")
    if not isinstance(content, str):
        content = "".join(_text(f"{where}.content[{i}]", part) for i, part in enumerate(content))
    return {"role": _TEMPLATE_ROLES.get(message.role, message.role), "content": content}


def _text(where: str, part: TextPart) -> str:
    if part.type != "text":
        raise UnsupportedParameter(
            f"{where}: parts of type '{part.type[:50]}' are not supported, only 'text'.",
            param=f"{where}.type",
        )
    _refuse_unknown(where, part.model_extra, _IGNORED_OF_A_PART)
    if part.text is None:
        raise InvalidParameter(f"{where}.text: must be a text.", param=f"{where}.text")
    return part.text


def _refuse_unknown(
    where: str, extra: Mapping[str, object] | None, ignored: frozenset[str]
) -> None:
    for name, value in (extra or {}).items():
        if value is not None and name not in ignored:
            path = f"{where}.{name[:200]}"
            raise UnsupportedParameter(f"'{path}' is not supported by this server.", param=path)


def _alone(prompt: str | list[int] | list[str]) -> str | list[int]:
    if isinstance(prompt, str) or isinstance(prompt[0], int):
        return prompt
    if len(prompt) > 1:
        raise UnsupportedParameter(
            f"prompt: {len(prompt)} prompts in one request are not supported, send one.",
            param="prompt",
        )
    return prompt[0]


def _encode(tokenizer: Tokenizer, prompt: str | list[int]) -> list[int]:
    if isinstance(prompt, str):
        ids = tokenizer.encode(prompt)
        if not ids:
            raise InvalidParameter("prompt: must not be empty.", param="prompt")
        return ids
    largest = max(prompt)
    if largest >= tokenizer.vocabulary_size:
        raise InvalidParameter(
            f"prompt: token id {largest} is not below {tokenizer.vocabulary_size}, the size of "
            "the vocabulary.",
            param="prompt",
        )
    return prompt
