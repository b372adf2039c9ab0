"""``POST /v1/streams`` and ``POST /v1/streams/{id}/cancel``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from millstream.admission import Refusal
from millstream.api.accept import framing_for
from millstream.api.adapting import least_tokens
from millstream.api.allowed import route
from millstream.api.body import read_json
from millstream.api.branches import branch_requests, served_branches
from millstream.api.dialect import NATIVE
from millstream.api.idempotency import Keyed, keyed
from millstream.api.named import check_name, known_stream, unknown_stream
from millstream.api.opening import Opened, open_stream, replay, stream_path
from millstream.api.opt_ins import OptIns, native_opt_ins
from millstream.api.ratelimit import refusal_response
from millstream.api.retention import refuse_unless_found_again
from millstream.api.schemas import CancelRequest, CreateStreamRequest
from millstream.api.scopes import requires
from millstream.api.services import Services, services
from millstream.api.streamed import streamed_answer
from millstream.api.tenant import tenant_of
from millstream.errors import InvalidParameter, UnsupportedParameter
from millstream.streams.orchestrator import Generation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from millstream.api.branches import ServedBranch
    from millstream.config import StreamPolicy
    from millstream.streams.orchestrator import BranchRequest

router = APIRouter()


@router.post("/v1/streams", dependencies=[requires("chat:create"), route("streams")])
async def create_stream(request: Request) -> Response:
    """Generate from one model or several at once, on one connection or on none."""
    parts = services(request)
    body = await read_json(
        request,
        CreateStreamRequest,
        max_bytes=parts.server.max_body_bytes,
        max_seconds=parts.server.body_seconds,
    )
    framing = None if body.stream is False else framing_for(request)
    key = keyed(request, tenant_of(request), body)
    branches = served_branches(request, body, parts)
    opened = await replay(parts, key) or await _open(request, body, parts, key, branches)
    if isinstance(opened, Refusal):
        return refusal_response(opened)
    if framing is None:
        return _begun(opened)
    return await streamed_answer(request, opened, framing, parts)


@router.post("/v1/streams/{stream_id}/cancel", dependencies=[requires("streams:cancel")])
async def cancel_stream(request: Request, stream_id: str) -> Response:
    """Stop a stream, or one branch of it, and say how it ended; again and again if need be."""
    parts = services(request)
    body = await read_json(
        request,
        CancelRequest,
        max_bytes=parts.server.max_body_bytes,
        max_seconds=parts.server.body_seconds,
        optional=True,
    )
    for name in body.model_extra or {}:
        raise UnsupportedParameter(f"Unknown parameter '{name[:200]}'.", param=name[:200])
    tenant = tenant_of(request)
    check_name(stream_id)
    outcome = await parts.directory.cancel(stream_id, tenant, body.branch)
    if outcome is None:
        await _refuse_branch(parts, stream_id, tenant, body.branch)
        raise unknown_stream(stream_id)
    return JSONResponse({"id": stream_id, "outcome": outcome})


async def _open(
    request: Request,
    body: CreateStreamRequest,
    parts: Services,
    key: Keyed | None,
    served: Sequence[ServedBranch],
) -> Opened | Refusal:
    streamed, tenant = body.stream is not False, tenant_of(request)
    branches = await branch_requests(served)
    # Of several models the first one's policy holds for the stream that they share.
    policy = served[0].model.policy
    opt_ins = native_opt_ins(request, body, policy)
    _check_readable(streamed, opt_ins)
    refuse_unless_found_again(parts, resumable=opt_ins.resumable, key=key)
    generation = _generation(
        branches,
        opt_ins,
        policy,
        tenant,
        streamed=streamed,
        keyed=bool(key),
        least_tokens=least_tokens(request, body.adapt_max_tokens),
    )
    return await open_stream(request, parts, generation, key)


def _generation(
    branches: tuple[BranchRequest, ...],
    opt_ins: OptIns,
    policy: StreamPolicy,
    tenant: str,
    *,
    streamed: bool,
    keyed: bool,
    least_tokens: int,
) -> Generation:
    return Generation(
        route=NATIVE.object,
        dialect=NATIVE.encoder,
        id_prefix=NATIVE.id_prefix,
        branches=branches,
        # Who is not answered by a stream reads one later.
        streamed=True,
        policy=policy,
        tenant=tenant,
        include_usage=opt_ins.include_usage,
        metadata=opt_ins.metadata,
        fields=opt_ins.fields,
        resumable=opt_ins.resumable,
        integrity=opt_ins.integrity,
        least_tokens=least_tokens,
        retained=opt_ins.resumable or keyed,
        background=not streamed,
    )


def _check_readable(streamed: bool, opt_ins: OptIns) -> None:
    if not streamed and not opt_ins.resumable:
        raise UnsupportedParameter(
            "resumable: must not be false with stream: false, or nobody could read the stream.",
            param="resumable",
        )


def _begun(opened: Opened) -> Response:
    descriptor = opened.stream.descriptor
    content = {
        "id": descriptor.id,
        "url": stream_path(descriptor.id),
        "branches": [
            {"model": branch.model, "chunk_id": branch.chunk_id} for branch in descriptor.branches
        ],
    }
    return JSONResponse(content, status_code=202, headers=opened.headers)


async def _refuse_branch(parts: Services, stream_id: str, tenant: str, branch: int | None) -> None:
    """Raise `InvalidParameter` if the stream is known: then it has no such branch."""
    if branch is not None:
        count = len((await known_stream(parts, stream_id, tenant)).descriptor.branches)
        raise InvalidParameter(
            f"branch: {branch} is not below {count}, the number of branches.", param="branch"
        )
