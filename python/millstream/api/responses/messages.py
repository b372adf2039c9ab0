"""From ``input`` and ``instructions`` to the messages that a model's template knows."""

from __future__ import annotations

from millstream.api.parameters import refuse_extra
from millstream.api.prompts import TEMPLATE_ROLES, Prompt, content_text, conversation
from millstream.api.responses.schemas import InputItem, ResponsesRequest
from millstream.errors import InvalidParameter, UnsupportedParameter

_ROLES = ("assistant", "developer", "system", "user")
# What an output message has beside its text: a client may send it back as it came.
_IGNORED_OF_AN_ITEM = frozenset({"id", "phase", "status"})
_IGNORED_OF_A_PART = frozenset({"annotations", "logprobs", "prompt_cache_breakpoint"})
_TEXT_PARTS = ("input_text", "output_text")


def input_prompt(body: ResponsesRequest) -> Prompt:
    """What the model is to continue; raises as `messages_of`."""
    return conversation(messages_of(body), "input")


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
    if item.role not in _ROLES:
        raise InvalidParameter(
            f"{where}.role: must be one of {', '.join(_ROLES)}.", param=f"{where}.role"
        )
    refuse_extra(where, item.model_extra, _IGNORED_OF_AN_ITEM)
    content = content_text(where, item.content, types=_TEXT_PARTS, ignored=_IGNORED_OF_A_PART)
    return {"role": TEMPLATE_ROLES.get(item.role, item.role), "content": content}
