"""Which parameters of the Responses API are served, ignored, or refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from millstream.api.parameters import refuse_unsupported
from millstream.api.responses.schemas import ResponsesRequest
from millstream.errors import UnsupportedParameter

HARMLESS: frozenset[str] = frozenset(
    {"max_tool_calls", "prompt_cache_options", "prompt_cache_retention", "service_tier"}
)
"""Ignored whatever their value: they do not change the text of the answer."""

NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "access_programs": (),
    "background_options": (),
    "context_management": ([],),
    "conversation": (),
    "image": (),
    "moderation": (),
    "previous_response_id": (),
    "prompt": (),
    "reasoning": ({}, {"effort": "none"}, {"effort": None}, {"effort": None, "summary": None}),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "truncation": ("disabled",),
}
"""Known and not supported: accepted only with a value that asks for nothing (or ``null``)."""

VACUOUS_INCLUDES = frozenset(
    {
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
        "file_search_call.results",
        "message.input_image.image_url",
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "web_search_call.results",
    }
)
"""Details of items that no answer of this server has."""

_REASONS: Mapping[str, str] = {
    "conversation": "the server keeps no conversations; send all messages in 'input'",
    "previous_response_id": "the server does not keep what was asked; send all messages in 'input'",
}


def check_parameters(body: ResponsesRequest) -> None:
    """Raise `UnsupportedParameter` for the first parameter that would change the meaning."""
    extra = body.model_extra or {}
    for name, reason in _REASONS.items():
        if extra.get(name) is not None:
            raise UnsupportedParameter(f"'{name}' is not supported: {reason}.", param=name)
    refuse_unsupported(extra, type(body).model_fields, harmless=HARMLESS, neutral=NEUTRAL)
    _check_text(body)
    _check_stream_options(body)
    check_includes(body.include or ())
    if body.background and body.store is False:
        raise UnsupportedParameter(
            "background: true needs store: true, since a background response is read from the "
            "store.",
            param="background",
        )


def check_includes(names: Iterable[str]) -> None:
    """Raise `UnsupportedParameter` for a detail that an answer would have to show."""
    for name in names:
        if name not in VACUOUS_INCLUDES:
            shown = name[:200]
            raise UnsupportedParameter(
                f"include: '{shown}' is not supported by this server.", param="include"
            )


def refuse_extra(where: str, extra: Mapping[str, object] | None, ignored: frozenset[str]) -> None:
    """Raise `UnsupportedParameter` for the first member that is set and not ignored."""
    for name, value in (extra or {}).items():
        if value is not None and name not in ignored:
            path = f"{where}.{name[:200]}"
            raise UnsupportedParameter(f"'{path}' is not supported by this server.", param=path)


def _check_text(body: ResponsesRequest) -> None:
    text = body.text
    if text is None:
        return
    refuse_extra("text", text.model_extra, frozenset())
    if text.verbosity not in (None, "medium"):
        raise UnsupportedParameter(
            "text.verbosity: only 'medium' is supported by this server.", param="text.verbosity"
        )
    if text.format is None:
        return
    if text.format.type != "text":
        raise UnsupportedParameter(
            f"text.format: the type '{text.format.type[:50]}' is not supported, only 'text'.",
            param="text.format",
        )
    refuse_extra("text.format", text.format.model_extra, frozenset())


def _check_stream_options(body: ResponsesRequest) -> None:
    options = body.stream_options
    if options is None:
        return
    if not body.stream:
        raise UnsupportedParameter(
            "stream_options is only allowed with stream: true.", param="stream_options"
        )
    for name, value in (options.model_extra or {}).items():
        if value is not None and value is not False:
            path = f"stream_options.{name[:200]}"
            raise UnsupportedParameter(f"'{path}' is not supported by this server.", param=path)
