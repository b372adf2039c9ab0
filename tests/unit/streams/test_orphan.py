"""A worker leaves when its server has died, and only then."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest

from millstream.streams.orphan import OrphanWatch

SERVER, INIT = 4321, 1


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What this process would have been sent."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr("os.kill", lambda pid, number: sent.append((pid, number)))
    return sent


def watch(monkeypatch: pytest.MonkeyPatch, started_by: int | None) -> OrphanWatch:
    parent = None if started_by is None else SimpleNamespace(pid=started_by)
    monkeypatch.setattr("multiprocessing.parent_process", lambda: parent)
    return OrphanWatch()


def test_a_worker_is_told_to_leave_once_when_its_server_has_died(
    monkeypatch: pytest.MonkeyPatch, signals: list[tuple[int, int]]
) -> None:
    orphans = watch(monkeypatch, SERVER)
    monkeypatch.setattr("os.getppid", lambda: SERVER)
    orphans.sweep(0)
    assert signals == []
    monkeypatch.setattr("os.getppid", lambda: INIT)
    orphans.sweep(1)
    orphans.sweep(2)
    assert signals == [(os.getpid(), signal.SIGTERM)]


def test_a_process_that_is_nobodys_worker_outlives_its_parent(
    monkeypatch: pytest.MonkeyPatch, signals: list[tuple[int, int]]
) -> None:
    orphans = watch(monkeypatch, None)
    monkeypatch.setattr("os.getppid", lambda: INIT)
    orphans.sweep(0)
    assert signals == []
