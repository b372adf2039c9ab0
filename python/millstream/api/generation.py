"""The road that chat and text completions share: check, admit, answer."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from millstream.admission import Refusal
from millstream.api.accept import framing_for
from millstream.api.adapting import least_tokens
from millstream.api.allowed import allowed_model
from millstream.api.branch import branch_request
from millstream.api.dialect import Dialect
from millstream.api.idempotency import Keyed, keyed
from millstream.api.opening import Opened, open_stream, replay
from millstream.api.opt_ins import openai_opt_ins
from millstream.api.parameters import check_stream_options, refuse_unsupported
from millstream.api.prompts import Prompt
from millstream.api.ratelimit import refusal_response
from millstream.api.retention import refuse_unless_found_again
from millstream.api.schemas import GenerationRequest
from millstream.api.services import ServedModel, Services
from millstream.api.streamed import streamed_answer
from millstream.api.tenant import tenant_of
from millstream.api.whole import whole_answer
from millstream.streams.orchestrator import Generation


async def answer(
    request: Request,
    body: GenerationRequest,
    prompt: Prompt,
    *,
    dialect: Dialect,
    services: Services,
) -> Response:
    """Admit this request, or find the stream of its key, and answer it, streamed or whole."""
    refuse_unsupported(body.model_extra, type(body).model_fields)
    check_stream_options(body.stream_options, streamed=body.stream)
    framing = framing_for(request) if body.stream else None
    served = allowed_model(request, services, body.model)
    key = keyed(request, tenant_of(request), body)
    opened = await replay(services, key) or await _open(
        request, body, prompt, key, served, dialect=dialect, services=services
    )
    if isinstance(opened, Refusal):
        return refusal_response(opened)
    if framing is None:
        return await whole_answer(request, opened, services)
    return await streamed_answer(request, opened, framing, services)


async def _open(
    request: Request,
    body: GenerationRequest,
    prompt: Prompt,
    key: Keyed | None,
    served: ServedModel,
    *,
    dialect: Dialect,
    services: Services,
) -> Opened | Refusal:
    opt_ins = openai_opt_ins(request, body, served.policy)
    refuse_unless_found_again(services, resumable=opt_ins.resumable, key=key)
    generation = Generation(
        route=dialect.object,
        dialect=dialect.encoder,
        id_prefix=dialect.id_prefix,
        branches=(await branch_request(served, body, prompt),),
        streamed=bool(body.stream),
        policy=served.policy,
        tenant=tenant_of(request),
        include_usage=opt_ins.include_usage,
        metadata=opt_ins.metadata,
        fields=opt_ins.fields,
        resumable=opt_ins.resumable,
        integrity=opt_ins.integrity,
        least_tokens=least_tokens(request, body.adapt_max_tokens),
        retained=opt_ins.resumable or key is not None,
    )
    return await open_stream(request, services, generation, key)
