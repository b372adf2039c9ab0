from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from millstream.cli import main
from millstream.cli.address import claim
from tests.unit.cli.local_server import Answer, local_server

EXPOSITION = """\
# TYPE millstream_engine_batch_size gauge
millstream_engine_batch_size{engine="local"} 3.0
# TYPE millstream_queue_depth gauge
millstream_queue_depth{engine="local"} 1.0
# TYPE millstream_kv_blocks_used gauge
millstream_kv_blocks_used{engine="local"} 20.0
# TYPE millstream_kv_blocks gauge
millstream_kv_blocks{engine="local"} 1024.0
# TYPE millstream_active_streams gauge
millstream_active_streams{model="chat"} 4.0
"""


def answer(path: str) -> Answer:
    return (200, EXPOSITION) if path == "/metrics" else (404, "")


def test_status_shows_what_each_engine_works_on() -> None:
    with local_server(answer) as port:
        base = f"http://127.0.0.1:{port}"
        result = CliRunner().invoke(main, ["engine", "status", "--url", base])

    header, row = (line.split() for line in result.stdout.splitlines())
    assert dict(zip(header, row, strict=True)) == {
        "engine": "local",
        "running": "3",
        "waiting": "1",
        "pages_used": "20",
        "pages": "1024",
    }


@pytest.mark.parametrize("base", ["junk", "http://[::1", "ftp://127.0.0.1", "http://127.0.0.1:x"])
def test_what_is_no_address_is_where_nobody_answers(base: str) -> None:
    result = CliRunner().invoke(main, ["engine", "status", "--url", base])

    assert result.exit_code == 1
    assert f"no Millstream answers on {base}" in result.stderr


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_wants_a_credential_says_which(status: int) -> None:
    with local_server(lambda _: (status, "{}")) as port:
        base = f"http://127.0.0.1:{port}"
        result = CliRunner().invoke(main, ["engine", "status", "--url", base])

    assert result.exit_code == 1
    assert f"answers {status}: needs a credential with metrics:read" in result.stderr


def test_status_as_json_finds_the_server_by_the_configuration() -> None:
    with local_server(answer) as port:
        environ = {"MILLSTREAM__SERVER__PORT": str(port)}
        result = CliRunner(env=environ).invoke(main, ["engine", "status", "--json"])

    assert json.loads(result.stdout) == {
        "local": {"running": 3, "waiting": 1, "pages_used": 20, "pages": 1024}
    }


def test_status_fails_when_no_server_answers() -> None:
    base = f"http://127.0.0.1:{claim('127.0.0.1', 0)[1]}"

    result = CliRunner().invoke(main, ["engine", "status", "--url", base])

    assert result.exit_code == 1
    assert f"no Millstream answers on {base}" in result.stderr
