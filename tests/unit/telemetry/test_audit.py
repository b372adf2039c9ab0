"""Where the audit trail goes."""

from __future__ import annotations

import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from millstream.assembly.audit import open_audit
from millstream.config.audit import AuditSettings
from millstream.errors import ConfigError
from millstream.telemetry.audit import FileAudit, LogAudit, NoAudit

NOON = 1_700_000_000_123_456_000


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def test_a_record_is_one_line_of_json(path: Path) -> None:
    audit = FileAudit(path, clock=lambda: NOON)
    audit.record("request", tenant="acme", status=200, route=None)
    audit.close()
    assert lines(path) == [
        {
            "ts": "2023-11-14T22:13:20.123456Z",
            "event": "request",
            "tenant": "acme",
            "status": 200,
        }
    ]


@pytest.mark.parametrize("hostile", ["a\nb", "a\r\nb", "a\u2028b", "a\x1b[2Jb", "\ud800", "é"])
def test_no_value_ends_a_line(path: Path, hostile: str) -> None:
    audit = FileAudit(path)
    audit.record("request", subject=hostile)
    audit.close()
    raw = path.read_bytes()
    assert raw.count(b"\n") == 1
    assert raw.isascii()
    assert lines(path)[0]["subject"] == hostile


def test_the_file_is_for_its_owner_alone(path: Path) -> None:
    previous = os.umask(0)
    try:
        FileAudit(path).close()
    finally:
        os.umask(previous)
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_was_there_stays(path: Path) -> None:
    path.write_text('{"event": "before"}\n')
    audit = FileAudit(path)
    audit.record("after")
    audit.close()
    assert [line["event"] for line in lines(path)] == ["before", "after"]


def test_a_file_that_was_moved_away_is_made_anew(path: Path, tmp_path: Path) -> None:
    audit = FileAudit(path)
    audit.record("old")
    moved = path.rename(tmp_path / "audit.1")
    audit.record("new")
    audit.record("newer")
    audit.close()
    assert [line["event"] for line in lines(moved)] == ["old"]
    assert [line["event"] for line in lines(path)] == ["new", "newer"]


def test_writers_never_mix_their_lines(path: Path) -> None:
    audits = [FileAudit(path) for _ in range(4)]

    def write(audit: FileAudit) -> None:
        for number in range(200):
            audit.record("request", number=number, filler="x" * 2000)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, audits))
    for audit in audits:
        audit.close()
    assert len(lines(path)) == 800


def test_a_record_that_cannot_be_written_is_one_error_and_no_failure(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    audit = FileAudit(path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        audit.record("lost")
        audit.record("lost too")
    audit.record("kept")
    audit.close()
    assert [record.getMessage() for record in caplog.records] == ["audit_not_written"]
    assert [line["event"] for line in lines(path)] == ["kept"]


def test_a_record_that_was_torn_spoils_no_other(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write, audit = os.write, FileAudit(path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda file, line: write(file, line[:7]))
        audit.record("torn")
    audit.record("kept")
    audit.record("kept")
    audit.close()
    assert [record.getMessage() for record in caplog.records] == ["audit_not_written"]
    torn, *kept = path.read_text().splitlines()
    assert len(torn) == 7
    assert [json.loads(line)["event"] for line in kept] == ["kept", "kept"]


def test_a_record_after_the_close_opens_the_file_again(path: Path) -> None:
    audit = FileAudit(path)
    audit.close()
    audit.close()
    audit.record("late")
    audit.close()
    assert [line["event"] for line in lines(path)] == ["late"]


def test_a_file_that_cannot_be_opened_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"audit\.path: .*none.*: No such file"):
        FileAudit(tmp_path / "none" / "audit.jsonl")


def test_the_log_takes_records_whatever_its_level(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("millstream").setLevel(logging.ERROR)
    try:
        LogAudit().record("request", tenant="acme", route=None)
    finally:
        logging.getLogger("millstream").setLevel(logging.NOTSET)
        logging.getLogger("millstream.audit").setLevel(logging.NOTSET)
    (record,) = caplog.records
    assert record.getMessage() == "request"
    assert record.__dict__["millstream_fields"] == {"tenant": "acme"}


def test_the_settings_say_where(path: Path) -> None:
    assert isinstance(open_audit(AuditSettings(kind="off")), NoAudit)
    assert isinstance(open_audit(AuditSettings()), LogAudit)
    logging.getLogger("millstream.audit").setLevel(logging.NOTSET)
    audit = open_audit(AuditSettings(kind="file", path=str(path)))
    audit.record("request")
    audit.close()
    assert len(lines(path)) == 1
