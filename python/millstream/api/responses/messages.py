"""From ``input`` and ``instructions`` to the messages that a model's template knows."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.api.responses.parameters import refuse_extra
from millstream.api.responses.schemas import ContentPart, InputItem, ResponsesRequest
from millstream.errors import InvalidParameter, UnsupportedParameter

# Newer clients say "developer" where the models' own templates know "system".
_ROLES: Mapping[str, str] = {
    "assistant": "assistant",
    "developer": "system",
    "system": "system",
    "user": "user",
}
# What an output message has beside its text: a client may send it back as it came.
_IGNORED_OF_AN_ITEM = frozenset({"id", "phase", "status"})
_IGNORED_OF_A_PART = frozenset({"annotations", "logprobs", "prompt_cache_breakpoint"})
_TEXT_PARTS = ("input_text", "output_text")


def messages_of(body: ResponsesRequest) -> list[dict[str, str]]:
    """The conversation, instructions first.

    Raises `UnsupportedParameter` for items and parts that are no text, and `InvalidParameter` for
    malformed ones.
    """
    messages = []
    if body.instructions:
        messages.append({"role": "system", "content": body.instructions})
    if isinstance(body.input, str):
        messages.append({"role": "user", "content": body.input})
    else:
        messages += [_message(f"input[{i}]", item) for i, item in enumerate(body.input)]
    return messages


def _message(where: str, item: InputItem) -> dict[str, str]:
    if item.type not in (None, "message"):
        raise UnsupportedParameter(
            f"{where}: items of type '{item.type[:50]}' are not supported, only 'message'.",
            param=f"{where}.type",
        )
    role = _ROLES.get(item.role or "")
    if role is None:
        raise InvalidParameter(
            f"{where}.role: must be one of {', '.join(_ROLES)}.", param=f"{where}.role"
        )
    refuse_extra(where, item.model_extra, _IGNORED_OF_AN_ITEM)
    content = item.content
    if content is None:
        raise InvalidParameter(f"{where}.content: must be a text.", param=f"{where}.content")
    if not isinstance(content, str):
        content = "".join(_text(f"{where}.content[{i}]", part) for i, part in enumerate(content))
    return {"role": role, "content": content}


def _text(where: str, part: ContentPart) -> str:
    if part.type not in _TEXT_PARTS:
        raise UnsupportedParameter(
            f"{where}: parts of type '{part.type[:50]}' are not supported, only "
            "'input_text' and 'output_text'.",
            param=f"{where}.type",
        )
    refuse_extra(where, part.model_extra, _IGNORED_OF_A_PART)
    if part.text is None:
        raise InvalidParameter(f"{where}.text: must be a text.", param=f"{where}.text")
    return part.text
