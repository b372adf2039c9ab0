"""A body is refused for its media type, its length, its syntax, before anything in it counts."""

from __future__ import annotations

import pytest
from starlette.requests import ClientDisconnect, Request

from millstream.api.body import read_json
from millstream.api.errors import BodyRefused
from millstream.api.schemas import CompletionRequest
from millstream.errors import InvalidParameter
from tests.unit.api.posted import JSON, posted

GOOD = b'{"model": "m", "prompt": "a"}'


async def read(sent: Request, max_bytes: int = 1000) -> CompletionRequest:
    return await read_json(sent, CompletionRequest, max_bytes=max_bytes, max_seconds=60)


async def refused(sent: Request, max_bytes: int = 1000) -> int:
    with pytest.raises(BodyRefused) as refusal:
        await read(sent, max_bytes)
    return refusal.value.status


@pytest.mark.parametrize(
    "media_type",
    ["application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json"],
)
async def test_json_may_come_in_any_pieces(media_type: str) -> None:
    pieces = [GOOD[at : at + 1] for at in range(len(GOOD))]
    body = await read(posted({"content-type": media_type}, *pieces))
    assert (body.model, body.prompt) == ("m", "a")


@pytest.mark.parametrize(
    "headers",
    [{}, {"content-type": "text/plain"}, {**JSON, "content-encoding": "gzip"}],
)
async def test_another_form_is_a_415_before_the_body_is_read(headers: dict[str, str]) -> None:
    assert await refused(posted(headers, b"x" * 5000)) == 415


async def test_a_body_as_long_as_allowed_is_read() -> None:
    assert (await read(posted(JSON, GOOD), len(GOOD))).model == "m"


@pytest.mark.parametrize("told", [True, False])
async def test_a_longer_one_is_a_413_whether_it_says_so_or_not(told: bool) -> None:
    headers = {**JSON, "content-length": str(len(GOOD))} if told else JSON
    sent = posted(headers, GOOD[:-1], GOOD[-1:])
    assert await refused(sent, len(GOOD) - 1) == 413


@pytest.mark.parametrize("content", [b"", b"{", b'{"model": "\xff"}', b"nonsense"])
async def test_what_is_not_json_is_a_400(content: bytes) -> None:
    assert await refused(posted(JSON, content)) == 400


async def test_a_client_that_leaves_half_way_is_refused_nothing() -> None:
    with pytest.raises(ClientDisconnect):
        await read(posted(JSON, GOOD[:5], cut=True))


@pytest.mark.parametrize(
    ("content", "param"),
    [
        (b"[]", None),
        (b"{}", "model"),
        (b'{"model": "m"}', "prompt"),
        (b'{"model": "m", "prompt": "a", "temperature": NaN}', "temperature"),
    ],
)
async def test_json_of_another_form_is_a_wrong_field(content: bytes, param: str | None) -> None:
    with pytest.raises(InvalidParameter) as wrong:
        await read(posted(JSON, content))
    assert wrong.value.param == param
