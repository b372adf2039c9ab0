"""What is told of each configuration that an instance looks at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from millstream.telemetry.shared_files import VARIABLE
from tests.integration.reload_instances import Instances, Seen, until_limit, with_limit
from tests.integration.valkey_server import ValkeyServer
from tests.waiting import until_true


@pytest.fixture
async def instances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Instances]:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "metrics"))
    instances = Instances(tmp_path)
    yield instances
    await instances.close()


async def test_each_change_of_a_file_is_told_by_what_it_came_to(instances: Instances) -> None:
    seen = Seen()
    live = await instances.start("a", with_limit(1), observer=seen)
    assert (seen.reloads, seen.revisions) == ([], [1])
    path = instances.file("a")
    path.write_text(with_limit(2))
    await until_limit(live, 2)
    path.write_text("[limits\n")
    await until_true(lambda: live.last_error is not None)
    path.write_text(with_limit(2, "# the same\n"))
    await until_true(lambda: len(seen.reloads) == 3)
    assert seen.reloads == [("file", "applied"), ("file", "refused"), ("file", "unchanged")]
    assert seen.revisions == [1, 2, 2]


async def test_a_document_is_told_apart_from_a_file(
    instances: Instances, valkey: ValkeyServer
) -> None:
    told, heard = Seen(), Seen()
    await instances.start("a", with_limit(1), url=valkey.url, observer=told)
    other = await instances.start("b", with_limit(1), url=valkey.url, observer=heard)
    instances.file("a").write_text(with_limit(2))
    await until_limit(other, 2)
    await until_true(lambda: len(told.reloads) == 2)
    # Its own change comes back to it as news.
    assert told.reloads == [("file", "applied"), ("document", "unchanged")]
    assert heard.reloads == [("document", "applied")]
    assert heard.revisions[-1] == 2
