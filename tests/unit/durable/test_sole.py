from __future__ import annotations

from pathlib import Path

from millstream.durable import SoleWorker


def test_one_worker_of_a_server_holds_the_streams_and_keeps_them(tmp_path: Path) -> None:
    first, second = SoleWorker(tmp_path), SoleWorker(tmp_path)
    assert first.held()

    assert not second.held()
    assert first.held()

    first.close()
    assert second.held()
    second.close()


def test_another_server_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    workers = [SoleWorker(tmp_path / name) for name in "ab"]

    assert all(worker.held() for worker in workers)
    for worker in workers:
        worker.close()
