"""From the settings of the audit trail to the one who writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.telemetry.audit import FileAudit, LogAudit, NoAudit

if TYPE_CHECKING:
    from millstream.config.audit import AuditSettings
    from millstream.telemetry.audit import AuditLog


def open_audit(settings: AuditSettings) -> AuditLog:
    """The audit trail of these settings. Raises ConfigError if its file cannot be opened."""
    if settings.kind == "file" and settings.path is not None:
        return FileAudit(settings.path)
    return LogAudit() if settings.kind == "log" else NoAudit()
