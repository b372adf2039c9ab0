"""From messages or a prompt to something that a tokenizer can encode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from millstream.api.parameters import refuse_extra
from millstream.api.schemas import Message, TextPart
from millstream.errors import InvalidParameter, UnsupportedParameter

if TYPE_CHECKING:
    from millstream.engines.base import Tokenizer

# Newer clients say "developer" where the models' own templates know "system".
TEMPLATE_ROLES: Mapping[str, str] = {"developer": "system"}
_IGNORED_OF_A_MESSAGE = frozenset({"name", "refusal"})
_IGNORED_OF_A_PART = frozenset({"cache_control"})

PromptField = Literal["messages", "prompt", "input"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is to continue; ``encode`` may run in a thread and raises `RequestError`."""

    encode: Callable[[Tokenizer], list[int]]
    characters: int
    """Of the text; 0 where it came in tokens."""
    field: PromptField


def chat_prompt(messages: list[Message]) -> Prompt:
    """A conversation; raises `RequestError` for the first message that cannot be shown whole."""
    turns = [_turn(index, message) for index, message in enumerate(messages)]
    return conversation(turns, "messages")


def conversation(turns: list[dict[str, str]], field: PromptField) -> Prompt:
    """Turns of ``role`` and ``content`` that a client sent in this field."""
    return Prompt(
        lambda tokenizer: tokenizer.encode_chat(turns),
        sum(len(text) for turn in turns for text in turn.values()),
        field,
    )


def text_prompt(prompt: str | list[int] | list[str]) -> Prompt:
    """A text or token ids; raises `RequestError` for more than one text."""
    alone = _alone(prompt)
    characters = len(alone) if isinstance(alone, str) else 0
    return Prompt(lambda tokenizer: _encode(tokenizer, alone), characters, "prompt")


def content_text(
    where: str,
    content: str | Sequence[TextPart] | None,
    *,
    types: Sequence[str] = ("text",),
    ignored: frozenset[str] = _IGNORED_OF_A_PART,
) -> str:
    """The text of a message at ``where`` whose parts are of these ``types``.

    Members of parts that are ``ignored`` do not change it; raises `RequestError` for all others.
    """
    if content is None:
        raise InvalidParameter(f"{where}.content: must be a text.", param=f"{where}.content")
    if isinstance(content, str):
        return content
    parts = ((f"{where}.content[{index}]", part) for index, part in enumerate(content))
    return "".join(_text(place, part, types, ignored) for place, part in parts)


def _turn(index: int, message: Message) -> dict[str, str]:
    where = f"messages[{index}]"
    refuse_extra(where, message.model_extra, _IGNORED_OF_A_MESSAGE)
    role = TEMPLATE_ROLES.get(message.role, message.role)
    return {"role": role, "content": content_text(where, message.content)}


def _text(where: str, part: TextPart, types: Sequence[str], ignored: frozenset[str]) -> str:
    if part.type not in types:
        offered = " and ".join(f"'{name}'" for name in types)
        raise UnsupportedParameter(
            f"{where}: parts of type '{part.type[:50]}' are not supported, only {offered}.",
            param=f"{where}.type",
        )
    refuse_extra(where, part.model_extra, ignored)
    if part.text is None:
        raise InvalidParameter(f"{where}.text: must be a text.", param=f"{where}.text")
    return part.text


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
