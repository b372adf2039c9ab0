"""``/openapi.json``: FastAPI's description of the routes, and what it cannot know of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from millstream.api import openapi_parts as parts
from millstream.api.responses.schemas import ResponsesRequest
from millstream.api.schemas import (
    CancelRequest,
    ChatCompletionRequest,
    CompletionRequest,
    CreateStreamRequest,
)
from millstream.api.scopes import Requires
from millstream.middleware.authentication import PROBES

Operation = dict[str, Any]

GENERATES = "chat:create"
"""The scope of the routes under limits."""

BODIES: Mapping[str, type[BaseModel]] = {
    "/v1/chat/completions": ChatCompletionRequest,
    "/v1/completions": CompletionRequest,
    "/v1/responses": ResponsesRequest,
    "/v1/streams": CreateStreamRequest,
    "/v1/streams/{stream_id}/cancel": CancelRequest,
}
"""What is posted there: the routes read it themselves, by these models."""

_EVENTS = ("text/event-stream", "application/x-ndjson", "application/jsonl")
_SCHEMA = "#/components/schemas/{model}"
# FastAPI's own answer to what it validates, which is nothing here.
_UNUSED = ("HTTPValidationError", "ValidationError")


def install(app: FastAPI, *, secured: bool) -> None:
    """Describe this app's routes; ``secured`` says whether they need a credential."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        known = app.openapi_schema
        document = plain()
        if document is not known:
            _complete(document, _scopes(app), secured=secured)
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _scopes(app: FastAPI) -> dict[tuple[str, str], str]:
    """The scope that each path and method names."""
    found: dict[tuple[str, str], str] = {}
    for route in iter_route_contexts(app.routes):
        dependant = getattr(route, "dependant", None)
        for one in dependant.dependencies if dependant else ():
            if isinstance(one.call, Requires):
                path, scope = str(getattr(route, "path_format", route.path)), one.call.scope
                found |= {(path, method.lower()): scope for method in route.methods or ()}
    return found


def _complete(
    document: dict[str, Any], scopes: Mapping[tuple[str, str], str], *, secured: bool
) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            scope = scopes.get((path, method))
            _describe_path(path, operation)
            _describe_answers(operation, scope)
            if path in BODIES:
                _describe_body(path, operation)
            if secured:
                _describe_credential(path, operation, scope)
    document["components"] = _components(document.get("components", {}), secured=secured)


def _describe_path(path: str, operation: Operation) -> None:
    """Parameters of the path that a route reads itself."""
    known = operation.setdefault("parameters", [])
    declared = {one["name"] for one in known if one["in"] == "path"}
    known += [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _placeholders(path)
        if name not in declared
    ]


def _placeholders(path: str) -> Iterator[str]:
    for part in path.split("{")[1:]:
        yield part.partition("}")[0]


def _describe_answers(operation: Operation, scope: str | None) -> None:
    answers = operation["responses"]
    answers.pop("422", None)
    if scope == GENERATES:
        ok = answers["200"]
        ok["headers"] = parts.headers(*parts.LIMITED)
        ok["content"] |= {name: {"schema": {"type": "string"}} for name in _EVENTS}
        answers["429"] = parts.refused("LimitReached")
        answers["503"] = parts.refused("Unavailable")
    answers["default"] = parts.refused("Refused")


def _describe_body(path: str, operation: Operation) -> None:
    model = BODIES[path]
    operation["requestBody"] = {
        "required": any(field.is_required() for field in model.model_fields.values()),
        "content": {"application/json": {"schema": {"$ref": _SCHEMA.format(model=model.__name__)}}},
    }


def _describe_credential(path: str, operation: Operation, scope: str | None) -> None:
    if path in PROBES:
        operation["security"] = []
        return
    operation["security"] = [{parts.BEARER: [] if scope is None else [scope]}]
    operation["responses"]["401"] = parts.refused("NotAuthenticated")
    if scope is not None:
        operation["responses"]["403"] = parts.refused("NotAllowed")
        operation["description"] += f"\n\nNeeds the scope `{scope}`."


def _components(known: Mapping[str, Any], *, secured: bool) -> dict[str, Any]:
    own = {name: schema for name, schema in known.get("schemas", {}).items() if name not in _UNUSED}
    bodies = [(model, "validation") for model in BODIES.values()]
    _, definitions = models_json_schema(bodies, ref_template=_SCHEMA)  # type: ignore[arg-type]
    refused = parts.RESPONSES
    if not secured:
        refused = {
            name: one
            for name, one in refused.items()
            if name not in ("NotAuthenticated", "NotAllowed")
        }
    return {
        **known,
        "schemas": {**own, **definitions["$defs"], **parts.SCHEMAS},
        "headers": parts.HEADERS,
        "responses": refused,
        **({"securitySchemes": parts.SECURITY_SCHEMES} if secured else {}),
    }
