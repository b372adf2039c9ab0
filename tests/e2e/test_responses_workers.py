"""Responses of one worker, asked for at another: two workers over one Valkey."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.conftest import CONFIG, assert_idle
from tests.e2e.responses import ASKED, ENDLESS_BODY, RESPONSES, frames, numbers, read_again
from tests.e2e.servers import Server, granian_command, serving
from tests.integration.valkey_server import ValkeyServer
from tests.ports import free_port
from tests.waiting import until

# Each call is a connection of its own, which the system gives to either worker.
CALLS = 12


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("workers")
    valkey = ValkeyServer()
    unlimited = CONFIG.replace("limits =", "# limits =")
    config = folder / "millstream.toml"
    config.write_text(f'{unlimited}\n[store]\nkind = "valkey"\nurl = "{valkey.url}"\n')
    port = free_port()
    environment = {"MILLSTREAM_CONFIG": str(config)}
    command = granian_command(port, "--workers", "2")
    try:
        with serving(command, port=port, folder=folder, environment=environment) as server:
            yield server
    finally:
        valkey.close()


def created(server: Server, body: dict[str, object]) -> str:
    answer = httpx.post(f"{server.url}{RESPONSES}", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def test_every_worker_knows_what_has_become_of_a_response(two_workers: Server) -> None:
    path = f"{RESPONSES}/{created(two_workers, {**ASKED, 'background': True})}"
    until(lambda: two_workers.get(path).json().get("status") in ("completed", "incomplete"))
    shown = [two_workers.get(path).json() for _ in range(CALLS)]
    assert all(response == shown[0] for response in shown)
    assert "Paris" in shown[0]["output"][0]["content"][0]["text"]


def test_a_background_stream_is_resumed_at_any_worker(two_workers: Server) -> None:
    body = {**ASKED, "background": True, "stream": True}
    with httpx.stream("POST", f"{two_workers.url}{RESPONSES}", json=body, timeout=60) as answer:
        all_events = list(frames(answer.iter_lines()))
    response_id = all_events[0].response.id
    for after in range(CALLS):
        rest = read_again(two_workers, response_id, starting_after=after)
        assert numbers(rest) == numbers(all_events)[after + 1 :]
        assert rest == all_events[after + 1 :]


def test_any_worker_cancels_and_the_others_readers_hear_of_it(two_workers: Server) -> None:
    for _ in range(4):
        body = {**ENDLESS_BODY, "background": True, "stream": True}
        with httpx.stream("POST", f"{two_workers.url}{RESPONSES}", json=body, timeout=60) as answer:
            events = frames(answer.iter_lines())
            path = f"{RESPONSES}/{next(events).response.id}"
            cancelled = httpx.post(f"{two_workers.url}{path}/cancel", timeout=60)
            assert cancelled.json()["status"] == "cancelled"
            *_, last = events
        assert last.response.status == "cancelled"

        def agrees(path: str = path, shown: object = cancelled.json()) -> bool:
            return bool(two_workers.get(path).json() == shown)

        until(agrees, what="the same word from every worker")
    assert_idle(two_workers)


def test_a_response_deleted_at_one_worker_is_gone_from_all(two_workers: Server) -> None:
    for number in range(6):
        asked = ENDLESS_BODY if number % 2 else ASKED
        path = f"{RESPONSES}/{created(two_workers, {**asked, 'background': True})}"
        deleted = httpx.delete(f"{two_workers.url}{path}", timeout=60)
        assert deleted.status_code == 200, deleted.text

        def gone(path: str = path) -> bool:
            return all(two_workers.get(path).status_code == 404 for _ in range(CALLS))

        until(gone, what="the response is gone")
    assert_idle(two_workers)
