"""What is written of who did what."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from millstream.config.section import Section


class AuditSettings(Section):
    """The audit trail: refusals, dropped scopes, changes, and who was admitted to what."""

    kind: Literal["off", "log", "file"] = "log"
    """`log` writes into the server's log, `file` one JSON object a line into `path`."""
    path: str | None = None
    """The file, appended to; made with mode 0600."""

    @model_validator(mode="after")
    def _path_for_a_file(self) -> AuditSettings:
        if self.kind == "file" and not self.path:
            raise PydanticCustomError("no_path", "`file` needs `path`")
        return self
