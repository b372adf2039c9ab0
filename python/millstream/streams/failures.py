"""What a reader is told when the server itself gives a stream up."""

from __future__ import annotations

from millstream.types import Failure, Outcome

FAILURES: dict[Outcome, Failure] = {
    Outcome.SHED: Failure(
        "The server is shutting down and could not finish this stream.", "server_error", "shed"
    ),
    Outcome.TIMEOUT_FIRST_TOKEN: Failure(
        "The engine produced no token in time.", "server_error", "timeout_first_token"
    ),
    Outcome.TIMEOUT_IDLE: Failure(
        "The engine stopped producing tokens.", "server_error", "timeout_idle"
    ),
    Outcome.TIMEOUT_TOTAL: Failure(
        "The stream took longer than it may.", "server_error", "timeout_total"
    ),
    Outcome.ENGINE_LOST: Failure(
        "The engine ended while it worked on this stream.", "server_error", "engine_lost"
    ),
    Outcome.UPSTREAM_ERROR: Failure("The engine failed.", "server_error", "upstream_error"),
}
"""The failures that the server itself declares; an engine's own error record goes before them."""

CREDENTIAL_EXPIRED = Failure(
    "The credential of this connection has expired. Come back with a new one.",
    "invalid_request_error",
    "credential_expired",
)
"""What a connection is told that may not outlive its credential."""
