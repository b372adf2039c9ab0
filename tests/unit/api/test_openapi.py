"""The description of the routes, judged by an independent validator and by what they answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from millstream import __version__
from millstream.api.openapi import BODIES
from millstream.app import create_app
from millstream.config import load_settings
from tests.unit.api.test_scopes import CONFIG, SCOPES

METHODS = {"get", "put", "post", "delete", "head", "options"}
OPEN = {"/healthz", "/readyz"}


def document(directory: Path, *, secured: bool = True) -> dict[str, Any]:
    path, keys = directory / "millstream.toml", directory / "keys.jsonl"
    keys.touch()
    text = CONFIG.replace("KEYS", str(keys)) if secured else CONFIG.partition("[auth]")[0]
    path.write_text(text)
    return create_app(load_settings(path, environ={})).openapi()


def operations(described: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Every operation, with its references to answers followed."""
    found = {}
    for path, item in described["paths"].items():
        for method, operation in item.items():
            assert method in METHODS
            answers = {
                status: resolved(described, answer)
                for status, answer in operation["responses"].items()
            }
            found[method.upper(), path] = operation | {"responses": answers}
    return found


def resolved(described: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in value:
        target: Any = described
        for part in value["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        value = target
    return value


@pytest.mark.parametrize("secured", [True, False])
def test_it_is_a_valid_description(tmp_path: Path, secured: bool) -> None:
    described = document(tmp_path, secured=secured)
    validate(described, cls=OpenAPIV31SpecValidator)
    assert described["info"] == {"title": "Millstream", "version": __version__}


def test_each_route_shows_the_scope_that_it_needs(tmp_path: Path) -> None:
    described = document(tmp_path)
    assert described["components"]["securitySchemes"]["bearer"]["type"] == "http"
    shown = {name: one["security"] for name, one in operations(described).items()}
    probes = {name: security for name, security in shown.items() if name[1] in OPEN}
    assert list(probes.values()) == [[], []]
    # `:path` is Starlette's, and a HEAD is not shown beside its GET.
    expected = {
        (method, path.replace(":path", "")): [{"bearer": [scope]}]
        for (method, path), scope in SCOPES.items()
        if method != "HEAD" or path.startswith("/v1/durable")
    }
    preflight: dict[tuple[str, str], Any] = {("OPTIONS", "/v1/durable/{path}"): [{"bearer": []}]}
    assert shown == {**probes, **expected, **preflight}


def test_refusals_are_described_with_their_headers(tmp_path: Path) -> None:
    described = document(tmp_path)
    for (_, path), operation in operations(described).items():
        answers = operation["responses"]
        assert ("401" in answers) is (path not in OPEN)
        assert ("403" in answers) is bool(
            operation["security"] and operation["security"][0]["bearer"]
        )
        assert ("429" in answers) is (operation["security"] == [{"bearer": ["chat:create"]}])
        assert "422" not in answers
        for status in answers.keys() - {"200"}:
            schema = resolved(described, answers[status]["content"]["application/json"]["schema"])
            assert "error" in schema["required"]
    refused = operations(described)["POST", "/v1/responses"]["responses"]
    assert set(refused["401"]["headers"]) == set(refused["403"]["headers"]) == {"WWW-Authenticate"}
    assert {"Retry-After", "retry-after-ms", "RateLimit", "RateLimit-Policy"} < set(
        refused["429"]["headers"]
    )
    assert "x-ratelimit-remaining-tokens" in refused["200"]["headers"]


def test_without_authentication_nothing_is_said_of_credentials(tmp_path: Path) -> None:
    described = document(tmp_path, secured=False)
    assert "securitySchemes" not in described["components"]
    for operation in operations(described).values():
        assert "security" not in operation
        assert not {"401", "403"} & operation["responses"].keys()
        assert "Needs the scope" not in operation.get("description", "")


def test_bodies_are_described_by_the_models_that_read_them(tmp_path: Path) -> None:
    described = document(tmp_path, secured=False)
    found = operations(described)
    for path, model in BODIES.items():
        body = found["POST", path]["requestBody"]
        schema = resolved(described, body["content"]["application/json"]["schema"])
        assert schema["properties"].keys() == model.model_fields.keys()
    assert found["POST", "/v1/responses"]["requestBody"]["required"]
    assert not found["POST", "/v1/streams/{stream_id}/cancel"]["requestBody"]["required"]


def test_it_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "millstream.toml"
    path.write_text(CONFIG.partition("[auth]")[0])
    app = create_app(load_settings(path, environ={}))
    first = app.openapi()
    assert app.openapi() is first
