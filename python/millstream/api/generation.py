"""The road that chat and text completions share: check, admit, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from millstream._core import Reader
from millstream.admission import Refusal
from millstream.api.accept import framing_for
from millstream.api.dialect import Dialect, completion_object
from millstream.api.errors import failed_stream_response
from millstream.api.parameters import refuse_unsupported
from millstream.api.ratelimit import limit_headers, refusal_response
from millstream.api.sampling import prompt_too_long, sampling_params
from millstream.api.schemas import GenerationRequest, StreamOptions
from millstream.api.services import ServedModel, Services
from millstream.errors import EngineUnavailable, UnsupportedParameter
from millstream.streams.branch import Deadlines
from millstream.streams.encoding import encoder_for
from millstream.streams.failures import FAILURES
from millstream.streams.orchestrator import BranchRequest, Generation
from millstream.streams.response import StreamResponse, client_departure
from millstream.streams.stream import Stream
from millstream.types import Failure, Outcome

if TYPE_CHECKING:
    from millstream.engines.base import Tokenizer

# Below this a prompt is tokenised in well under a millisecond; above it the loop must not wait.
INLINE_PROMPT_CHARACTERS = 4096


async def answer(
    request: Request,
    body: GenerationRequest,
    encode: Callable[[Tokenizer], list[int]],
    *,
    prompt_characters: int,
    dialect: Dialect,
    services: Services,
) -> Response:
    """Admit this request and answer it, streamed or whole.

    ``encode`` turns the prompt into ids; it may run in a thread.
    """
    refuse_unsupported(body.model_extra, type(body).model_fields)
    _check_stream_options(body)
    framing = framing_for(request) if body.stream else None
    served = services.model(body.model)
    prompt = await _tokenise(served, body, encode, prompt_characters)
    generation = _generation(request, served, body, prompt, dialect, services)
    opened = services.orchestrator.open(generation)
    if isinstance(opened, Refusal):
        services.metrics.refusal(opened.scope_kind, opened.dimension)
        return refusal_response(opened)
    try:
        if framing is None:
            return await _whole(request, opened, dialect, body.n or 1)
        return StreamResponse(
            opened,
            Reader(opened.log, encoder_for(opened.descriptor, framing=framing.framing)),
            deliveries=services.deliveries,
            policy=generation.policy,
            media_type=framing.media_type,
            headers=limit_headers(opened.lease),
            clock=services.clock,
        )
    except BaseException:
        # Nobody reads it: what has been acquired is given back before the failure is answered.
        opened.end(Outcome.CANCELLED)
        raise


def _check_stream_options(body: GenerationRequest) -> None:
    options = body.stream_options
    if options is None:
        return
    if not body.stream:
        raise UnsupportedParameter(
            "stream_options is only allowed with stream: true.", param="stream_options"
        )
    for name, value in (options.model_extra or {}).items():
        if value is not None and value is not False:
            raise UnsupportedParameter(
                f"The parameter 'stream_options.{name[:200]}' is not supported by this server.",
                param=f"stream_options.{name[:200]}",
            )


def _asks_metadata(request: Request) -> bool:
    return request.headers.get("x-stream-metadata") == "1"


async def _tokenise(
    served: ServedModel,
    body: GenerationRequest,
    encode: Callable[[Tokenizer], list[int]],
    characters: int,
) -> list[int]:
    context_length = _context_length(served)
    tokenizer = served.engine.tokenizer
    if characters <= INLINE_PROMPT_CHARACTERS:
        return encode(tokenizer)

    def encode_if_it_can_fit() -> list[int]:
        # Megabytes that cannot fit would cost seconds and hundreds of megabytes to count.
        if characters > context_length * tokenizer.longest_token:
            raise prompt_too_long(body, f"{characters} characters", context_length)
        return encode(tokenizer)

    return await asyncio.to_thread(encode_if_it_can_fit)


def _context_length(served: ServedModel) -> int:
    info = served.engine.model_info
    if info is None or not served.engine.ready:
        raise EngineUnavailable(f"The engine of model '{served.name}' is not ready.")
    return min(info.context_length, info.cache_tokens)


def _generation(
    request: Request,
    served: ServedModel,
    body: GenerationRequest,
    prompt: list[int],
    dialect: Dialect,
    services: Services,
) -> Generation:
    options = body.stream_options or StreamOptions()
    params = sampling_params(
        body,
        prompt_tokens=len(prompt),
        context_length=_context_length(served),
        max_tokens_cap=served.settings.max_tokens,
    )
    return Generation(
        route=dialect.object,
        dialect=dialect.encoder,
        id_prefix=dialect.id_prefix,
        branches=(BranchRequest(served.name, served.engine, prompt, params, _deadlines(served)),),
        streamed=bool(body.stream),
        policy=services.settings.stream_policy("default", served.name),
        include_usage=bool(options.include_usage),
        metadata=bool(options.include_metadata) or _asks_metadata(request),
    )


def _deadlines(served: ServedModel) -> Deadlines:
    timeouts = served.settings.timeouts
    return Deadlines(
        first_token_ns=_nanoseconds(timeouts.first_token_seconds),
        idle_ns=_nanoseconds(timeouts.idle_seconds),
        total_ns=_nanoseconds(timeouts.total_seconds),
    )


def _nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1e9)


async def _whole(request: Request, stream: Stream, dialect: Dialect, choices: int) -> Response:
    stream.attach()
    try:
        await _ended_or_gone(request, stream)
        if stream.outcome in (Outcome.COMPLETED, Outcome.LENGTH):
            content = completion_object(dialect, stream, choices=choices)
            return JSONResponse(content, headers=limit_headers(stream.lease))
        return _failed(stream)
    finally:
        stream.detach()


async def _ended_or_gone(request: Request, stream: Stream) -> None:
    gone = asyncio.ensure_future(client_departure(request.receive))
    ended = asyncio.ensure_future(stream.wait_ended())
    try:
        await asyncio.wait((gone, ended), return_when=asyncio.FIRST_COMPLETED)
        stream.end(Outcome.CLIENT_GONE)
    finally:
        gone.cancel()
        ended.cancel()


def _failed(stream: Stream) -> Response:
    outcome = stream.outcome or Outcome.CLIENT_GONE
    text = stream.log.error
    failure = Failure.from_json(text) if text else FAILURES.get(outcome, _GONE)
    return failed_stream_response(outcome, failure)


_GONE = Failure("The client has left.", "invalid_request_error", "client_gone")
