"""A request that is answered with an error for its form, or for the place it names."""

from __future__ import annotations


class Denied(Exception):
    """Becomes an error object with this status and code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
