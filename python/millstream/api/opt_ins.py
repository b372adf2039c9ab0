"""What a client asks of its stream beyond the tokens, by body or by header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request

from millstream.api.schemas import CreateStreamRequest, GenerationRequest, StreamOptions
from millstream.errors import InvalidParameter, UnsupportedParameter

if TYPE_CHECKING:
    from millstream.config import StreamPolicy

_WORDS = {"1": True, "true": True, "0": False, "false": False}


@dataclass(frozen=True, slots=True)
class OptIns:
    """What the frames of a stream carry."""

    include_usage: bool = False
    metadata: bool = False
    fields: bool = False
    resumable: bool = False
    integrity: bool = False


def openai_opt_ins(request: Request, body: GenerationRequest, policy: StreamPolicy) -> OptIns:
    """Those of an OpenAI request; none where it is answered whole.

    Raises `RequestError` for a header with another value than 0 or 1, and for contradictions.
    """
    if not body.stream:
        return OptIns()
    options = body.stream_options or StreamOptions()
    integrity = wanted(request, "integrity", options.integrity)
    resumable = wanted(request, "resumable", options.resumable)
    return OptIns(
        include_usage=bool(options.include_usage),
        metadata=bool(wanted(request, "metadata", options.include_metadata)),
        fields=_or(options.fields, policy.fields),
        resumable=_resumable(
            resumable, integrity, default=policy.resumable_default, where="stream_options."
        ),
        integrity=bool(integrity),
    )


def native_opt_ins(request: Request, body: CreateStreamRequest, policy: StreamPolicy) -> OptIns:
    """Those of a native request, which is resumable unless it says otherwise; raises likewise."""
    integrity = wanted(request, "integrity", body.integrity)
    resumable = wanted(request, "resumable", body.resumable)
    return OptIns(
        include_usage=True,
        metadata=bool(wanted(request, "metadata", body.metadata)),
        fields=_or(body.fields, policy.fields),
        resumable=_resumable(resumable, integrity, default=True, where=""),
        integrity=bool(integrity),
    )


def wanted(request: Request, name: str, by_body: bool | None) -> bool | None:
    """The word of the body, else that of the header, else None."""
    header = f"X-Stream-{name.capitalize()}"
    text = request.headers.get(header)
    if text is None:
        return by_body
    by_header = _WORDS.get(text.strip().lower())
    if by_header is None:
        raise InvalidParameter(f"{header}: must be 1 or 0.", param=header)
    return by_header if by_body is None else by_body


def _resumable(wanted: bool | None, integrity: bool | None, *, default: bool, where: str) -> bool:
    """The checks travel in the event ids, so who asks for them asks for ids as well."""
    if integrity and wanted is False:
        raise UnsupportedParameter(
            f"{where}integrity: the checks are part of the event ids, which resumable: false "
            "leaves out.",
            param=f"{where}integrity",
        )
    return bool(integrity) or _or(wanted, default)


def _or(value: bool | None, default: bool) -> bool:
    return default if value is None else value
