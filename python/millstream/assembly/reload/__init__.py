"""Puts new settings in force while the server runs: from its file, and from other instances."""

from __future__ import annotations

from millstream.assembly.reload.channel import open_documents
from millstream.assembly.reload.reloader import Reloader

__all__ = ["Reloader", "open_documents"]
