"""One native request as the branches that it stands for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from millstream.api.allowed import allowed_model
from millstream.api.branch import branch_request
from millstream.api.parameters import refuse_unsupported
from millstream.api.prompts import Prompt, chat_prompt, text_prompt
from millstream.api.schemas import BranchFields, CreateStreamRequest
from millstream.errors import InvalidParameter, RequestError

if TYPE_CHECKING:
    from starlette.requests import Request

    from millstream.api.services import ServedModel, Services
    from millstream.streams.orchestrator import BranchRequest

# A branch that sets one of these means it instead of the other one of the common fields.
_ALTERNATIVES = (("messages", "prompt"), ("max_tokens", "max_completion_tokens"))


@dataclass(frozen=True, slots=True)
class ServedBranch:
    """What one branch asks of which model; ``where`` goes before the names of its fields."""

    where: str
    fields: BranchFields
    model: ServedModel


def served_branches(
    request: Request, body: CreateStreamRequest, services: Services
) -> tuple[ServedBranch, ...]:
    """Every branch with its model, before anything is begun.

    Raises `RequestError` with the path of the first wrong field, and `NotAllowed` for a model that
    the tenant may not use.
    """
    refuse_unsupported(body.model_extra, CreateStreamRequest.model_fields)
    served = []
    for where, fields in _branches(body):
        with _located(where):
            model = allowed_model(request, services, _required(fields.model))
            served.append(ServedBranch(where, fields, model))
    return tuple(served)


async def branch_requests(branches: Sequence[ServedBranch]) -> tuple[BranchRequest, ...]:
    """Every branch in tokens; raises `RequestError` with the path of the first wrong field."""
    requests = []
    for branch in branches:
        with _located(branch.where):
            prompt = _prompt(branch.fields)
            requests.append(await branch_request(branch.model, branch.fields, prompt))
    return tuple(requests)


def _branches(body: CreateStreamRequest) -> list[tuple[str, BranchFields]]:
    if body.branches is None:
        return [("", body)]
    branches = []
    for index, branch in enumerate(body.branches):
        where = f"branches[{index}]."
        refuse_unsupported(branch.model_extra, BranchFields.model_fields, where=where)
        branches.append((where, _over(body, branch)))
    return branches


def _over(body: CreateStreamRequest, branch: BranchFields) -> BranchFields:
    """The common fields with those of the branch over them; null takes a common field away."""
    own = {name: getattr(branch, name) for name in branch.model_fields_set}
    common = {name: getattr(body, name) for name in BranchFields.model_fields}
    for pair in _ALTERNATIVES:
        if any(own.get(name) is not None for name in pair):
            common |= dict.fromkeys(pair)
    # Both were checked field by field.
    return BranchFields.model_construct(**common | own)


def _required(model: str | None) -> str:
    if model is None:
        raise InvalidParameter("model: Field required", param="model")
    return model


def _prompt(fields: BranchFields) -> Prompt:
    if fields.messages is not None and fields.prompt is not None:
        raise InvalidParameter("messages and prompt: send one of them.", param="prompt")
    if fields.messages is not None:
        return chat_prompt(fields.messages)
    if fields.prompt is not None:
        return text_prompt(fields.prompt)
    raise InvalidParameter("messages: messages or prompt is required.", param="messages")


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Put the branch before the field that a `RequestError` names."""
    try:
        yield
    except RequestError as error:
        if not where:
            raise
        param = None if error.param is None else where + error.param
        raise type(error)(f"{where.rstrip('.')}: {error.message}", param=param) from None
