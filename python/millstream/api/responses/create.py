"""``POST /v1/responses``."""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from millstream.admission import Refusal
from millstream.api.accept import framing_for
from millstream.api.adapting import least_tokens
from millstream.api.allowed import allowed_model, route
from millstream.api.body import read_json
from millstream.api.branch import branch_request
from millstream.api.idempotency import Keyed, keyed
from millstream.api.opening import Opened, open_stream, replay
from millstream.api.opt_ins import wanted
from millstream.api.ratelimit import refusal_response
from millstream.api.responses.ids import RESPONSE_PREFIX
from millstream.api.responses.lasting import Lasting, lasting
from millstream.api.responses.messages import input_prompt
from millstream.api.responses.objects import response_object
from millstream.api.responses.parameters import check_parameters
from millstream.api.responses.schemas import ResponsesRequest, ResponseStreamOptions
from millstream.api.responses.template import response_template
from millstream.api.retention import refuse_unless_found_again
from millstream.api.scopes import requires
from millstream.api.services import ServedModel, Services, services
from millstream.api.streamed import streamed_answer
from millstream.api.tenant import tenant_of
from millstream.api.whole import whole_answer
from millstream.streams.branch import WHOLE
from millstream.streams.orchestrator import Generation, new_stream_id
from millstream.types import Outcome

if TYPE_CHECKING:
    from millstream.streams.orchestrator import BranchRequest

router = APIRouter()

ROUTE = "response"
# Whoever cancels a response from elsewhere has not made a request fail.
_ANSWERED = WHOLE | {Outcome.CANCELLED}


@router.post("/v1/responses", dependencies=[requires("chat:create"), route("responses")])
async def create_response(request: Request) -> Response:
    """Answer an input: whole, streamed, or in the background, to be read later."""
    parts = services(request)
    body = await read_json(
        request,
        ResponsesRequest,
        max_bytes=parts.server.max_body_bytes,
        max_seconds=parts.server.body_seconds,
    )
    check_parameters(body)
    framing = framing_for(request) if body.stream else None
    served = allowed_model(request, parts, body.model)
    key = keyed(request, tenant_of(request), body)
    opened = await replay(parts, key) or await _open(request, body, parts, key, served)
    if isinstance(opened, Refusal):
        return refusal_response(opened)
    if framing is not None:
        return await streamed_answer(request, opened, framing, parts)
    if body.background:
        return JSONResponse(response_object(opened.stream), headers=opened.headers)
    return await whole_answer(request, opened, parts, content=response_object, answered=_ANSWERED)


async def _open(
    request: Request,
    body: ResponsesRequest,
    parts: Services,
    key: Keyed | None,
    served: ServedModel,
) -> Opened | Refusal:
    tenant = tenant_of(request)
    lasts = lasting(request, body, served.policy, keyed=key is not None)
    promised = lasts.promised_by
    refuse_unless_found_again(parts, resumable=promised is not None, key=key, name=promised or "")
    branch = await branch_request(served, body, input_prompt(body))
    stream_id = new_stream_id()
    generation = msgspec.structs.replace(
        _generation(body, branch, lasts, tenant=tenant, stream_id=stream_id),
        metadata=_metadata(request, body),
        least_tokens=least_tokens(request, body.adapt_max_tokens),
    )
    return await open_stream(request, parts, generation, key, stream_id=stream_id)


def _metadata(request: Request, body: ResponsesRequest) -> bool:
    if not body.stream:
        return False
    options = body.stream_options or ResponseStreamOptions()
    return bool(wanted(request, "metadata", options.include_metadata))


def _generation(
    body: ResponsesRequest, branch: BranchRequest, lasts: Lasting, *, tenant: str, stream_id: str
) -> Generation:
    return Generation(
        route=ROUTE,
        dialect="responses",
        id_prefix=RESPONSE_PREFIX,
        branches=(branch,),
        # The last events of a stream repeat its text, so all of it is kept however it is read.
        streamed=False,
        policy=lasts.policy,
        tenant=tenant,
        resumable=lasts.resumable,
        retained=lasts.stored,
        background=bool(body.background),
        response=response_template(
            body, branch.params, stream_id=stream_id, created=time_ns() // 1_000_000_000
        ),
    )
