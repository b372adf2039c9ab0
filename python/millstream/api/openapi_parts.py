"""What the routes' description says more than once: the error object, header fields, refusals."""

from __future__ import annotations

from typing import Any

BEARER = "bearer"

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}

SCHEMAS: dict[str, Any] = {
    "Failure": {
        "type": "object",
        "description": "OpenAI's error object.",
        "required": ["message", "type", "param", "code"],
        "properties": {
            "message": {**_TEXT, "description": "For people."},
            "type": {
                **_TEXT,
                "description": "Whose fault it is.",
                "examples": ["invalid_request_error", "rate_limit_error", "server_error"],
            },
            "param": {"type": ["string", "null"], "description": "The field that is wrong."},
            "code": {"type": ["string", "null"], "description": "Stable, for programs."},
        },
    },
    "Error": {
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"$ref": "#/components/schemas/Failure"}},
    },
    "LimitError": {
        "type": "object",
        "required": ["error", "violated_policies"],
        "properties": {
            "error": {"$ref": "#/components/schemas/Failure"},
            "violated_policies": {
                "type": "array",
                "description": "Names of items of `RateLimit-Policy`.",
                "items": {"enum": ["requests", "tokens", "concurrency", "bytes"]},
            },
        },
    },
}


def _field(description: str, example: object, schema: dict[str, Any] = _TEXT) -> dict[str, Any]:
    return {"description": description, "schema": schema, "example": example}


_LIMIT_FIELDS = {
    f"x-ratelimit-{word}-{dimension}": _field(f"{meaning} {dimension}.", example, schema)
    for dimension in ("requests", "tokens")
    for word, meaning, example, schema in (
        ("limit", "The whole of", 100, _COUNT),
        ("remaining", "What is left of", 58, _COUNT),
        ("reset", "As Go writes durations: the time until all is back of", "1m0.5s", _TEXT),
    )
} | {
    "RateLimit-Policy": _field(
        "The quotas (draft-ietf-httpapi-ratelimit-headers).", '"tokens";q=20000;w=1;qu="tokens"'
    ),
    "RateLimit": _field("What is left of each.", '"tokens";r=19955;t=1'),
}
_CHALLENGE = _field("What is missing (RFC 6750).", 'Bearer realm="millstream"')
_WAIT_SECONDS = _field("Seconds, rounded up.", 1, {"type": "integer", "minimum": 1})
_WAIT_MS = _field("The same in milliseconds.", 250, {"type": "integer", "minimum": 1})

HEADERS: dict[str, Any] = {
    **_LIMIT_FIELDS,
    "Retry-After": _WAIT_SECONDS,
    "retry-after-ms": _WAIT_MS,
    "WWW-Authenticate": _CHALLENGE,
}
LIMITED = tuple(_LIMIT_FIELDS)
"""Header fields of whatever limits have granted or refused."""


def headers(*names: str) -> dict[str, Any]:
    """The header fields of a response, by reference."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _refusal(description: str, *fields: str, schema: str = "Error") -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": description, "headers": headers(*fields), "content": content}


RESPONSES: dict[str, Any] = {
    "NotAuthenticated": _refusal("No credential that holds.", "WWW-Authenticate"),
    "NotAllowed": _refusal(
        "A scope, tenant, model or route that the credential is not for.", "WWW-Authenticate"
    ),
    "LimitReached": _refusal(
        "A limit is reached: when to come back.",
        "Retry-After",
        "retry-after-ms",
        *LIMITED,
        schema="LimitError",
    ),
    "Unavailable": _refusal("Something that this needs is away.", "Retry-After"),
    "Refused": _refusal("Any other refusal or failure."),
}


def refused(name: str) -> dict[str, str]:
    """One of `RESPONSES`, by reference."""
    return {"$ref": f"#/components/responses/{name}"}


SECURITY_SCHEMES: dict[str, Any] = {
    BEARER: {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key of `millstream keys`, or a JSON Web Token. What a route names "
        "beside it is the scope that it needs.",
    }
}
