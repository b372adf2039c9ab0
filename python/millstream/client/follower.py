"""Reads one stream to its end over as many connections as it takes, without doing any I/O.

The caller asks `next_attempt` what to send, says what was `answered`, feeds the bytes that come
and says when the connection was `cut`; time and chance are arguments.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from millstream._core import SseEvent, SseEventTooLarge, SseParser
from millstream.client import answers
from millstream.client.errors import ClientError, IntegrityError, StreamFailed, StreamGap
from millstream.client.events import (
    UNSTORED,
    Done,
    Event,
    Failed,
    Gap,
    Handover,
    Leaf,
    Token,
    decode,
)
from millstream.client.reconnect import Backoff, ReconnectPolicy
from millstream.client.request import Request, resumption
from millstream.client.transcript import SUCCESSES, Piece, Transcript
from millstream.client.verifier import Verifier
from millstream.event_id import EventId
from millstream.types import Outcome

OnGap = Literal["raise", "accept"]

# A gap frame may carry the whole text so far.
_MOST_EVENT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request to send in ``delay_seconds``; its answer may take ``timeout_seconds``."""

    request: Request
    delay_seconds: float
    timeout_seconds: float | None


class Follower:
    """The protocol of one read: a stream that ``opening`` makes, or the one of this id.

    ``integrity`` refuses a stream whose ids carry no checksums. With ``on_gap="accept"`` a gap is
    filled with the text that the server still has.
    """

    def __init__(
        self,
        *,
        opening: Request | None = None,
        stream_id: str | None = None,
        after: EventId | None = None,
        integrity: bool = False,
        on_gap: OnGap = "raise",
        policy: ReconnectPolicy | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.transcript = Transcript()
        self.stream_id = stream_id
        self.connections = 0
        self.restarts = 0
        self.reading = False
        self.cancelling = False
        self._opening = opening
        self._start = after
        self._integrity = integrity
        self._accepts_gaps = on_gap == "accept"
        self._backoff = Backoff(policy or ReconnectPolicy(), chance)
        self._verifier = None if stream_id is None else self._verify(stream_id)
        self._parser = SseParser()
        self._given = after
        self._damaged_after = -1
        self._damaged_times = 0
        self._ended = False
        self._fatal: ClientError | None = None

    @property
    def last_event_id(self) -> str | None:
        """The id of the last record that was given out or noted."""
        return None if self._given is None else str(self._given)

    def next_attempt(self, now: float) -> Attempt | None:
        """What to send next, None at a good end.

        Raises what stands in the way of the text that is still to come.
        """
        self.reading = False
        if self._fatal is not None:
            raise self._fatal
        if self._ended:
            self._raise_failure()
            return None
        if self.cancelling and self.stream_id is None:
            return None  # nothing was made that we know of, and nothing is wanted
        self._backoff.start(now)
        delay = self._backoff.delay() if self.connections else 0.0
        self.connections += 1
        return Attempt(self._request(), delay, self._backoff.remaining(now + delay))

    def answered(self, status: int, headers: Mapping[str, str]) -> bool:
        """Take the head of an answer; True if its body is to be fed, else `refused` takes it."""
        if status == 204 and self._verifier is not None:
            self._take_no_more(self._verifier)
            return True
        if status != 200 or not answers.is_event_stream(headers):
            return False
        if self._verifier is None:
            self.stream_id = headers.get("x-stream-id")
            if self.stream_id is None:
                return False
            self._verifier = self._verify(self.stream_id)
        self._verifier.reconnect()
        self._parser = SseParser(max_event_bytes=_MOST_EVENT_BYTES)
        self.reading = True
        return True

    def refused(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Take an answer that is no stream."""
        after = 0 if self._given is None else self._given.seq
        refusal = answers.refusal(status, body, after)
        if answers.is_temporary(status):
            self._backoff.failed(refusal, answers.asked_seconds(headers))
        else:
            self._fatal = refusal

    def feed(self, data: bytes, now: float) -> Iterator[Piece]:
        """Take bytes of the body; stop feeding when `reading` has turned false.

        What is not iterated has not been read: `last_event_id` is that of the last piece.
        """
        try:
            for event in self._parser.feed(data):
                yield from self._take(event)
                if not self.reading:
                    return
            self._backoff.remaining(now)
        except IntegrityError as error:
            self._restart(error)
        except (ValueError, msgspec.MsgspecError, SseEventTooLarge) as error:
            self._restart(IntegrityError(f"not an event: {error}", self.last_event_id))
        except ClientError as error:
            self._stop(error)

    def cut(self, reason: Exception | None = None) -> None:
        """The connection is over: by itself, or because `reading` turned false."""
        if self.reading or reason is not None:
            self._backoff.failed(reason)
        self.reading = False

    def _verify(self, stream_id: str) -> Verifier:
        return Verifier(stream_id, after=self._start, required=self._integrity)

    def _request(self) -> Request:
        if self.stream_id is None and self._opening is not None:
            return self._opening
        position = None if self._verifier is None else self._verifier.position
        return resumption(self.stream_id or "", position, snapshot=self._accepts_gaps)

    def _take(self, event: SseEvent) -> list[Piece]:
        if event.retry is not None:
            self._backoff.retry_after(event.retry)
        said = decode(event)
        # An id stays until the next one, so this is no record but about the connection.
        if isinstance(said, Failed | None) and event.id in ("", str(self._checks.position)):
            return []
        if isinstance(said, UNSTORED):
            return self._take_unstored(said)
        return self._take_record(EventId.parse(event.id), said)

    def _take_unstored(self, said: Leaf | Gap) -> list[Piece]:
        if isinstance(said, Leaf):
            self._checks.leaf(said)
            return []
        if not self._accepts_gaps:
            missing = said.missing
            raise StreamGap(missing.first, missing.last, said.oldest, said.latest)
        self.transcript.gaps.append(said.missing)
        snapshots = said.text or ()
        self._checks.skip(said.latest if said.text is not None else said.oldest - 1)
        self._given = self._checks.position
        return [piece for one in snapshots if (piece := self.transcript.replace(one)) is not None]

    def _take_record(self, at: EventId, said: Event | None) -> list[Piece]:
        self._checks.record(at, said.text if isinstance(said, Token) else None)
        if isinstance(said, Done):
            self._checks.done(said.checks)
        given = self._given
        # Not as pairs: no checksum covers an epoch, so a damaged one may have been given out.
        if given is not None and at.seq <= given.seq and at.epoch <= given.epoch:
            self._compare(at, given, said)
            piece = None
        else:
            self._given = at
            self._backoff.progressed()
            piece = self.transcript.take(said)
        self._follow(said)
        return [piece] if piece is not None else []

    def _compare(self, at: EventId, given: EventId, said: Event | None) -> None:
        # What was given out cannot be taken back.
        is_shorter = isinstance(said, Done) and at.seq < given.seq
        if is_shorter or (at.seq == given.seq and given.crc is not None and at.crc != given.crc):
            raise _Unlike("the server now has another text than the one given out", str(at))

    def _follow(self, said: Event | None) -> None:
        if isinstance(said, Handover):
            self._backoff.retry_after(said.retry_ms)
            self.reading = False
        elif isinstance(said, Done):
            self.transcript.take(said)
            self._ended, self.reading = True, False

    @property
    def _checks(self) -> Verifier:
        if self._verifier is None:
            raise RuntimeError("there is no body before an answer")
        return self._verifier

    def _take_no_more(self, verifier: Verifier) -> None:
        """Finished, and read to the end: then the end must have been among it."""
        if verifier.position is not None and verifier.position == self._start:
            self._ended = True
        else:
            self._restart(IntegrityError("the end did not come", self.last_event_id))

    def _restart(self, error: IntegrityError) -> None:
        """Come back at the last good leaf, unless it was this very spot that often."""
        self.restarts += 1
        at = 0 if self._checks.position is None else self._checks.position.seq
        self._damaged_times = self._damaged_times + 1 if at <= self._damaged_after else 1
        self._damaged_after = max(at, self._damaged_after)
        if isinstance(error, _Unlike) or self._damaged_times > self._backoff.policy.max_restarts:
            self._stop(error)
            return
        self._checks.rewind()
        self._backoff.failed(error)
        self.reading = False

    def _stop(self, error: ClientError) -> None:
        self._fatal, self.reading = error, False

    def _raise_failure(self) -> None:
        outcome = self.transcript.outcome
        if outcome is None or outcome in SUCCESSES:
            return
        if not (self.cancelling and outcome is Outcome.CANCELLED):
            raise StreamFailed(outcome, self.transcript.error)


class _Unlike(IntegrityError):
    """No restart can help."""
