"""Several instances that tell each other of changes through a real Valkey."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from millstream.cli import main
from millstream.config import Document
from millstream.config.watch import changes
from millstream.store.valkey.documents import Documents
from millstream.telemetry.shared_files import VARIABLE
from tests.integration.reload_instances import (
    Instances,
    later,
    listeners,
    until_limit,
    with_limit,
)
from tests.integration.valkey_server import ValkeyServer
from tests.waiting import until_true

KEY = "millstream:config"
PUSH = ["config", "push", "--config"]


@pytest.fixture
async def instances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Instances]:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "metrics"))
    instances = Instances(tmp_path)
    yield instances
    await instances.close()


async def push(valkey: ValkeyServer, text: str, *, written_ns: int | None = None) -> None:
    await Documents(valkey.url, KEY).push(Document(written_ns or later(), text, "pushed"))


async def test_a_changed_file_of_one_changes_all(
    instances: Instances, valkey: ValkeyServer
) -> None:
    first = await instances.start("a", with_limit(1), url=valkey.url)
    second = await instances.start("b", with_limit(1), url=valkey.url)
    instances.file("a").write_text(with_limit(2))
    await until_limit(second, 2)
    await until_limit(first, 2)
    assert (first.revision, second.revision) == (2, 2)
    assert first.source == str(instances.file("a"))
    assert second.source.startswith(f"{KEY} of 20")


async def test_a_document_is_read_with_each_instances_own_environment(
    instances: Instances, valkey: ValkeyServer
) -> None:
    live = await instances.start(
        "a",
        with_limit(1),
        url=valkey.url,
        environ={"MILLSTREAM__STREAMS__RETENTION_SECONDS": "77"},
    )
    await push(valkey, with_limit(2, "[streams]\nretention_seconds = 5\n[server]\nport = 9\n"))
    settings = await until_limit(live, 2)
    assert settings.streams.retention_seconds == 77
    assert live.restart_needed == ("server.port",)


@pytest.mark.parametrize(
    "text",
    [
        "[limits\n",
        with_limit(2, "[tenants.acme]\nmodels = ['n']\n"),
        with_limit(2, "[servr]\nport = 1\n"),
    ],
)
async def test_a_broken_document_keeps_the_old_settings_and_says_so(
    instances: Instances, valkey: ValkeyServer, text: str
) -> None:
    live = await instances.start("a", with_limit(1), url=valkey.url)
    await push(valkey, text)
    await until_true(lambda: live.last_error is not None)
    assert (live.last_error or "").startswith(f"{KEY} of 20")
    assert live.current.limits.concurrency == 1
    await push(valkey, with_limit(3))
    await until_limit(live, 3)
    assert live.last_error is None


async def test_a_limit_that_valkey_could_not_count_is_refused_and_not_only_when_it_is_used(
    instances: Instances, valkey: ValkeyServer
) -> None:
    environ = {"MILLSTREAM__LIMITER__KIND": "valkey"}
    live = await instances.start("a", with_limit(1), url=valkey.url, environ=environ)
    uncountable = "[limits.requests]\nper_minute = 7\nburst = 1000000000\n"
    await push(valkey, with_limit(2, uncountable))
    await until_true(lambda: live.last_error is not None)
    assert "global: limits.requests: a burst of 1000000000" in (live.last_error or "")
    assert live.current.limits.concurrency == 1


@pytest.mark.parametrize("stored", [b"no JSON", b"\xff", b'{"toml": 1}', b'{"written_ns": 1e300}'])
async def test_a_key_that_holds_something_else_is_named(
    instances: Instances, valkey: ValkeyServer, stored: bytes
) -> None:
    live = await instances.start("a", with_limit(1), url=valkey.url)
    valkey.client.set(KEY, stored)
    valkey.client.publish(KEY, "1")
    await until_true(lambda: live.last_error is not None)
    assert "the document cannot be read" in (live.last_error or "")
    instances.file("a").write_text(with_limit(2))
    await until_limit(live, 2)
    await until_true(lambda: b"concurrency = 2" in valkey.client.get(KEY))


async def test_at_the_start_a_newer_document_holds_over_the_file(
    instances: Instances, valkey: ValkeyServer
) -> None:
    await push(valkey, with_limit(2))
    path = instances.file("a")
    path.parent.mkdir()
    path.write_text(with_limit(1))
    os.utime(path, (1, 1))
    live = await instances.start("a", url=valkey.url)
    # No request has been served before.
    assert live.current.limits.concurrency == 2


async def test_at_the_start_a_newer_file_holds_and_is_told_to_nobody(
    instances: Instances, valkey: ValkeyServer
) -> None:
    await push(valkey, with_limit(2), written_ns=1)
    live = await instances.start("a", with_limit(1), url=valkey.url)
    assert (live.current.limits.concurrency, live.revision) == (1, 1)
    assert b"concurrency = 2" in valkey.client.get(KEY)


async def test_what_was_pushed_while_the_connection_was_lost_is_read_afterwards(
    instances: Instances, own_valkey: ValkeyServer
) -> None:
    live = await instances.start("a", with_limit(1), url=own_valkey.url)
    own_valkey.kill()
    own_valkey.start()
    await push(own_valkey, with_limit(2))
    await until_limit(live, 2)
    await until_true(lambda: listeners(own_valkey) == 1)
    await push(own_valkey, with_limit(3))
    await until_limit(live, 3)


async def test_a_valkey_that_comes_back_with_an_older_document_changes_nothing(
    instances: Instances, own_valkey: ValkeyServer
) -> None:
    live = await instances.start("a", with_limit(1), url=own_valkey.url)
    await push(own_valkey, with_limit(2))
    await until_limit(live, 2)
    older = own_valkey.client.get(KEY)
    await push(own_valkey, with_limit(3))
    await until_limit(live, 3)
    own_valkey.kill()
    own_valkey.start()
    own_valkey.client.set(KEY, older)
    await until_true(lambda: listeners(own_valkey) == 1)
    instances.file("a").write_text(with_limit(4))
    await until_limit(live, 4)
    assert live.revision == 4


async def test_of_pushes_in_quick_succession_the_last_holds_everywhere(
    instances: Instances, valkey: ValkeyServer
) -> None:
    first = await instances.start("a", with_limit(1), url=valkey.url)
    second = await instances.start("b", with_limit(1), url=valkey.url)
    # Times that are out of order: each push is newer than the one before it all the same.
    for written_ns, concurrency in ((later(), 2), (later() + 10**12, 3), (1000, 4), (5, 5)):
        await push(valkey, with_limit(concurrency), written_ns=written_ns)
    await until_limit(first, 5)
    await until_limit(second, 5)


async def test_two_servers_with_different_files_go_by_the_last_change_of_either(
    instances: Instances, valkey: ValkeyServer
) -> None:
    first = await instances.start("a", with_limit(1), url=valkey.url)
    second = await instances.start("b", with_limit(10), url=valkey.url)
    assert (first.current.limits.concurrency, second.current.limits.concurrency) == (1, 10)
    instances.file("a").write_text(with_limit(2))
    await until_limit(second, 2)
    instances.file("b").write_text(with_limit(11))
    await until_limit(first, 11)
    third = await instances.start("c", with_limit(3), url=valkey.url)
    # Its file is the newest of all, and it has not changed since the start.
    assert third.current.limits.concurrency == 3
    assert first.current.limits.concurrency == 11


async def test_a_file_that_goes_and_comes_back_does_not_undo_a_pushed_document(
    instances: Instances, valkey: ValkeyServer
) -> None:
    live = await instances.start("a", with_limit(1), url=valkey.url)
    await push(valkey, with_limit(2))
    await until_limit(live, 2)
    path, away = instances.file("a"), instances.file("a").with_suffix(".away")
    path.rename(away)
    await until_true(lambda: live.last_error is not None)
    away.rename(path)
    await until_true(lambda: live.last_error is None)
    assert (live.current.limits.concurrency, live.revision) == (2, 2)


async def test_a_file_that_changed_meanwhile_is_told_afterwards(
    instances: Instances, own_valkey: ValkeyServer
) -> None:
    first = await instances.start("a", with_limit(1), url=own_valkey.url)
    second = await instances.start("b", with_limit(1), url=own_valkey.url)
    own_valkey.kill()
    instances.file("a").write_text(with_limit(2))
    await until_limit(first, 2)
    assert second.current.limits.concurrency == 1
    own_valkey.start()
    await until_limit(second, 2)


async def test_a_server_that_freezes_is_left_and_found_again(
    instances: Instances, own_valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.store.valkey.documents.PING_SECONDS", 0.05)
    monkeypatch.setattr("millstream.store.valkey.documents.CALL_SECONDS", 0.3)
    live = await instances.start("a", with_limit(1), url=own_valkey.url)
    own_valkey.freeze()
    await asyncio.sleep(0.6)
    own_valkey.thaw()
    await push(own_valkey, with_limit(2))
    await until_limit(live, 2)


async def test_a_valkey_that_is_away_at_the_start_keeps_nobody_waiting_for_long(
    instances: Instances, own_valkey: ValkeyServer
) -> None:
    own_valkey.kill()
    live = await instances.start("a", with_limit(1), url=own_valkey.url)
    assert live.current.limits.concurrency == 1
    own_valkey.start()
    await push(own_valkey, with_limit(2))
    await until_limit(live, 2)


async def test_two_workers_of_one_file_tell_of_its_change_once(
    instances: Instances, valkey: ValkeyServer
) -> None:
    first = await instances.start("a", with_limit(1), url=valkey.url)
    second = await instances.start("a", url=valkey.url)
    pubsub = valkey.client.pubsub(ignore_subscribe_messages=True)
    pubsub.subscribe(KEY)
    instances.file("a").write_text(with_limit(2))
    await until_limit(first, 2)
    await until_limit(second, 2)
    await until_true(lambda: b"concurrency = 2" in (valkey.client.get(KEY) or b""))
    await push(valkey, with_limit(3))
    await until_limit(first, 3)
    heard = 0
    while (message := pubsub.get_message(timeout=0.2)) is not None or not heard:
        heard += message is not None
    pubsub.close()
    assert heard == 2
    assert (first.revision, second.revision) == (3, 3)


async def test_a_worker_that_heard_of_its_files_change_first_does_not_bring_it_back(
    instances: Instances, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It took the look at its file for a newer change than what had been pushed meanwhile.
    noticed, looked, hears = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def late(path: Path) -> AsyncGenerator[None]:
        await noticed.wait()
        yield
        looked.set()
        async for _ in changes(path):
            yield

    news = Documents.news

    async def first_news_only(documents: Documents) -> AsyncGenerator[bool]:
        heard = 0
        async for new in news(documents):
            if heard > 1:
                await hears.wait()
            yield new
            heard += 1

    looks = iter([changes, late])
    monkeypatch.setattr(
        "millstream.assembly.reload.own_file.changes", lambda path: next(looks)(path)
    )
    first = await instances.start("a", with_limit(1), url=valkey.url)
    await asyncio.sleep(0)  # it begins to look
    monkeypatch.setattr(Documents, "news", first_news_only)
    second = await instances.start("a", url=valkey.url)
    instances.file("a").write_text(with_limit(2))
    await until_limit(first, 2)
    await until_limit(second, 2)
    await push(valkey, with_limit(3))
    noticed.set()
    await looked.wait()
    assert b"concurrency = 3" in valkey.client.get(KEY)
    hears.set()
    await until_limit(second, 3)
    await until_limit(first, 3)


async def test_an_older_change_does_not_replace_a_newer_document(valkey: ValkeyServer) -> None:
    documents = Documents(valkey.url, KEY)
    assert await documents.publish(Document(5, "five", ""))
    assert not await documents.publish(Document(5, "other", ""))
    assert not await documents.publish(Document(6, "five", ""))
    assert await documents.publish(Document(6, "six", ""))
    await documents.push(Document(1, "pushed", ""))
    found = await documents.read()
    assert found is not None
    assert (found.written_ns, found.text) == (7, "pushed")


async def test_the_command_line_pushes_what_it_has_checked(
    instances: Instances, valkey: ValkeyServer, tmp_path: Path
) -> None:
    live = await instances.start("a", with_limit(1), url=valkey.url)
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text(with_limit(2, f'[reload]\nurl = "{valkey.url}"\n'))
    bad.write_text(with_limit(3, f'[reload]\nurl = "{valkey.url}"\nchanel = "x"\n'))
    refused = await asyncio.to_thread(CliRunner().invoke, main, [*PUSH, str(bad)])
    assert refused.exit_code == 1
    assert "did you mean `channel`?" in refused.stderr
    assert valkey.client.get(KEY) is None
    pushed = await asyncio.to_thread(CliRunner().invoke, main, [*PUSH, str(good)])
    assert (pushed.exit_code, pushed.stdout) == (0, f"{good}: handed to 1 worker\n")
    await until_limit(live, 2)


async def test_a_file_whose_change_is_noticed_late_does_not_bring_back_what_was_replaced(
    instances: Instances, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    noticed = asyncio.Event()

    async def late(path: Path) -> AsyncGenerator[None]:
        await noticed.wait()
        yield
        async for _ in changes(path):
            yield

    monkeypatch.setattr("millstream.assembly.reload.own_file.changes", late)
    live = await instances.start("a", with_limit(1), url=valkey.url)
    instances.file("a").write_text(with_limit(2))
    await push(valkey, with_limit(3))
    await until_limit(live, 3)
    noticed.set()
    await push(valkey, with_limit(4))
    await until_limit(live, 4)
    assert b"concurrency = 4" in valkey.client.get(KEY)
    assert live.revision == 3
    # An older file that is put there now is meant.
    older = instances.file("a").with_suffix(".older")
    older.write_text(with_limit(5))
    os.utime(older, (1, 1))
    older.replace(instances.file("a"))
    await until_limit(live, 5)
