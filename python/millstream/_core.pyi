"""The Rust token path; proved against the built module by stubtest."""

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, Self, final

from typing_extensions import Buffer

# --- attention ---------------------------------------------------------------------------------

class _CacheShape(Protocol):
    @property
    def layers(self) -> int: ...
    @property
    def pages(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...

@final
class PagedAttention:
    def __new__(cls, shape: _CacheShape, *, bfloat16: bool, threads: int) -> PagedAttention: ...
    def extend_pages(self, slot: int, pages: list[int]) -> None: ...
    def clear_pages(self, slot: int) -> None: ...
    def begin(self, rows: list[tuple[int, int, int]]) -> int: ...
    def attend(
        self, layer: int, query: object, key: object, value: object, output: object
    ) -> None: ...

# --- decoder -----------------------------------------------------------------------------------

@final
class LlamaDecoder:
    def __new__(
        cls,
        shape: _CacheShape,
        frame: object,
        layers: Iterable[object],
        *,
        bfloat16: bool,
        threads: int,
    ) -> LlamaDecoder: ...
    def extend_pages(self, slot: int, pages: list[int]) -> None: ...
    def clear_pages(self, slot: int) -> None: ...
    def greedy(
        self, rows: list[tuple[int, int, int]], ids: list[int], samples: list[int]
    ) -> list[int]: ...
    def logits(
        self,
        rows: list[tuple[int, int, int]],
        ids: list[int],
        samples: list[int],
        output: object,
    ) -> None: ...

# --- detokenizer -------------------------------------------------------------------------------

@final
class Vocabulary:
    """The bytes of every token id, shared by all that decode with it."""

    def __new__(cls, tokens: list[bytes], skip: Iterable[int] | None = None) -> Self:
        """Tokens in the order of their ids; ids in ``skip`` produce no text.

        Raises ValueError if ``skip`` names an id beyond the tokens.
        """

    def __len__(self) -> int: ...

@final
class Detokenizer:
    """One choice's ids on their way to text: whole UTF-8 scalars, nothing of a stop string."""

    def __new__(cls, vocabulary: Vocabulary, stop: list[str] = ...) -> Self:
        """A text that ends before the first of the stop strings; ValueError if one is empty."""

    def push(self, token: int) -> str:
        """The text that one more id makes certain; ValueError for an unknown id."""

    def finish(self) -> str:
        """What was held back; an incomplete character becomes U+FFFD."""

    @property
    def stopped(self) -> bool:
        """Whether a stop string has been found; nothing more is shown then."""

@final
class Emitter:
    """The engine's way out: the ids of one step in, records in the workers' rings out."""

    def __new__(cls, vocabulary: Vocabulary) -> Self: ...
    def open(self, ring: RingProducer, stream: int, choice: int, stop: list[str]) -> int:
        """Open a slot for one choice of a stream; ValueError if a stop string is empty."""

    def step(self, slots: list[int], ids: list[int], time_ns: int) -> list[int]:
        """Take one id for each slot named; returns the slots that reached a stop string.

        Tokens whose text is held back are counted by the next record. A slot may be named again
        for its next id; ids after its stop string are ignored. ``time_ns`` is Unix time. Raises
        ValueError for an unknown slot or id before anything is written.
        """

    def finish(self, slot: int, reason: str, time_ns: int) -> None:
        """Show what was held back, write the finish record and close the slot.

        Tokens that made no text are counted by the finish record. ValueError if it is not open.
        """

    def close(self, slot: int) -> None:
        """Close a slot without a record; ValueError if it is not open."""

# --- hub ---------------------------------------------------------------------------------------

@final
class Hub:
    """The worker's end of one ring: brings its records to the logs of their requests."""

    def __new__(cls, ring: RingConsumer, notifier: Notifier | None = None) -> Self:
        """Drain ``ring`` on the loop of ``notifier``."""

    def attach(self, request: int, log: Log, branch: int = 0) -> None:
        """Send the request's records to this branch of ``log``.

        Raises ValueError if it is attached already, or if the log has no such branch.
        """

    def detach(self, request: int) -> None:
        """Forget the request; records that still come are dropped and counted. Idempotent."""

    def drain(self) -> tuple[list[object], list[int]]:
        """Take everything due: (waiters to wake on this loop, requests whose engine part ended).

        Waiters of other loops, and all of them without a notifier, go through their own notifier.
        Raises ConnectionError, for good, once the engine has broken the ring's protocol; what came
        before is in the logs and its waiters have been handed to their notifiers.
        """

    @property
    def dropped(self) -> int:
        """Records that no log took: unknown request, log closed, or a kind no engine may write."""

    @property
    def attached(self) -> int:
        """Requests attached at the moment."""

# --- jwt ---------------------------------------------------------------------------------------

class JwtError(ValueError):
    """A token that is refused; the text is for logs and holds nothing of the token."""

    reason: Literal[
        "malformed",
        "algorithm",
        "unknown_key",
        "signature",
        "expired",
        "not_yet_valid",
        "issuer",
        "audience",
        "claim",
    ]

@final
class JwtClaims:
    """What a token says whose signature holds."""

    @property
    def subject(self) -> str:
        """`sub`: not empty, and without control characters, like every text here."""

    @property
    def tenant(self) -> str | None: ...
    @property
    def role(self) -> str | None: ...
    @property
    def scopes(self) -> tuple[str, ...] | None:
        """None if the token says nothing of scopes, which differs from an empty list."""

    @property
    def expires_at(self) -> float:
        """`exp`, in unix seconds."""

@final
class JwtVerifier:
    """Checks JSON Web Tokens; nothing in a token decides how it is checked.

    It may be used by several threads, also while its keys are replaced.
    """

    def __new__(
        cls,
        *,
        algorithms: Sequence[str],
        issuer: str | None = None,
        audience: str | None = None,
        leeway_seconds: int = 30,
        claims: tuple[str, str, str] | None = None,
    ) -> Self:
        """A verifier without keys. ``claims`` names those of tenant, role and scopes.

        Algorithms are RS256, ES256 and EdDSA in any combination, or HS256 alone. A dot in a name
        goes one level down, unless the name is a URL. Raises ValueError for any other algorithm,
        for an unusable name, and for a name inside another one.
        """

    @property
    def key_count(self) -> int: ...
    def replace_keys(self, jwks: bytes) -> list[str]:
        """Take the keys of a JSON Web Key Set in place of those in use.

        Returns a line on every key that is left out: of other types, for other uses, too weak.
        Raises ValueError, and keeps the keys in use, if the text is no key set.
        """

    def replace_secret(self, secret: bytes) -> None:
        """Take the secret of HS256, at least 32 bytes; ValueError if it is shorter."""

    def verify(self, token: str | bytes, now_unix: int) -> JwtClaims:
        """The claims of a token that holds at this time; JwtError for any other.

        ``exp`` and ``sub`` are required. The GIL is released while the token is checked.
        """

# --- limiter -----------------------------------------------------------------------------------

@final
class Quota:
    """What one key may use; a dimension that is left out has no limit.

    ``rate`` requests come back every ``period_ns`` and ``burst`` fit into the bucket, so any window
    W may see ``burst + rate * W``; a rate of 0 refuses everything. At most ``tokens`` in any
    ``window_ns``, counted in ``slots`` parts. At most ``concurrency`` open leases, which hold at
    most ``kibibytes`` of memory together. ValueError for values out of range or a half-given
    dimension.
    """

    def __new__(
        cls,
        *,
        rate: int | None = None,
        period_ns: int = 1_000_000_000,
        burst: int | None = None,
        tokens: int | None = None,
        window_ns: int | None = None,
        slots: int = 16,
        concurrency: int | None = None,
        kibibytes: int | None = None,
    ) -> Quota: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Scopes:
    """Keys with their quotas, resolved for one limiter; made by ``Limiter.scopes``."""

@final
class Lease:
    """The name of a reservation; the limiter keeps the rest."""

    @property
    def tokens(self) -> int:
        """Tokens reserved in all."""
    @property
    def prompt(self) -> int:
        """Tokens of these that are spent whatever happens."""
    @property
    def kibibytes(self) -> int:
        """Memory in KiB that is held until the lease ends."""

@final
class Refusal:
    """Why nothing was taken; false in a condition."""

    @property
    def scope(self) -> str:
        """The key that refuses."""
    @property
    def dimension(self) -> Literal["requests", "tokens", "concurrency", "bytes"]:
        """What ran out there."""
    @property
    def wait_ns(self) -> int:
        """Nanoseconds after which the same call is admitted if nobody else comes.

        When open leases are in the way (``concurrency``, ``bytes``) nobody can know: then the least
        time that the other dimensions need, which may be 0. A permanent refusal has 0.
        """
    @property
    def permanent(self) -> bool:
        """Whether no waiting helps: the cost exceeds the capacity, or the capacity is zero."""
    def __bool__(self) -> Literal[False]: ...

@final
class Meter:
    """The state of one dimension of one key."""

    @property
    def scope(self) -> str:
        """The key."""
    @property
    def limit(self) -> int:
        """The capacity: burst, tokens per window, open leases, or KiB."""
    @property
    def remaining(self) -> int:
        """What is left of it, never below 0."""
    @property
    def reset_ns(self) -> int:
        """Nanoseconds until all of it is back; 0 where only the end of leases gives back."""

@final
class Snapshot:
    """The tightest scope of each dimension: the fewest left, then the longest reset."""

    @property
    def requests(self) -> Meter | None:
        """Requests, if any scope limits them."""
    @property
    def tokens(self) -> Meter | None:
        """Tokens, if any scope limits them."""
    @property
    def concurrency(self) -> Meter | None:
        """Open leases, if any scope limits them."""
    @property
    def bytes(self) -> Meter | None:
        """KiB that open leases hold, if any scope limits them."""

@final
class Limiter:
    """Several keys checked together, all or nothing.

    ``now_ns`` is the reading of a monotonic clock. ``max_keys`` are kept, divided evenly among the
    ``shards``; the others of a shard share one overflow key per quota. A lease that is neither
    ended nor renewed for ``lease_ttl_ns`` ends at its reserved cost. ValueError for costs outside
    0..2**40, before any state is touched, and for scopes or leases of another limiter.
    """

    def __new__(
        cls,
        *,
        max_keys: int = 100_000,
        shards: int = 8,
        lease_ttl_ns: int = 900_000_000_000,
    ) -> Limiter: ...
    def scopes(self, scopes: Sequence[tuple[str, Quota]]) -> Scopes:
        """Resolves 1 to 6 keys with their quotas, for any number of decisions.

        A key that is found under another quota goes on under the new one.
        """
    def reserve(
        self,
        scopes: Scopes,
        now_ns: int,
        tokens: int = 0,
        requests: int = 1,
        prompt: int = 0,
        kibibytes: int = 0,
    ) -> Lease | Refusal:
        """Takes the cost from every scope and opens a lease on it, or takes nothing.

        ``prompt`` tells how many of the ``tokens`` are spent even if nothing is generated;
        ``kibibytes`` are held until the lease ends.
        """
    def take(
        self, scopes: Scopes, now_ns: int, tokens: int = 0, requests: int = 1
    ) -> Literal[True] | Refusal:
        """Takes the cost from every scope for good, or nothing; open leases do not count."""
    def settle(self, lease: Lease, actual: int, now_ns: int) -> bool:
        """Ends a lease with the tokens that were really used; False if it had ended before."""
    def cancel(self, lease: Lease, emitted: int, now_ns: int) -> bool:
        """Ends a lease at its prompt and the emitted tokens; False if it had ended before."""
    def undo(self, lease: Lease, now_ns: int) -> bool:
        """Ends a lease on which nothing was served; False if it had ended before.

        Tokens and requests go back like what it held: all of it at the instant of the reservation,
        later the tokens to their slot and the requests less what time has given back since.
        """
    def renew(self, lease: Lease, now_ns: int) -> bool:
        """Starts the time to live of an open lease again; False if it has ended."""
    def peek(self, scopes: Scopes, now_ns: int) -> Snapshot:
        """What is left; takes nothing and makes no key."""
    @property
    def keys(self) -> int:
        """Keys that have state of their own."""
    @property
    def holds(self) -> int:
        """Open leases, counted once for each of their keys."""

# --- log ---------------------------------------------------------------------------------------

INTER_TOKEN_BOUNDS_NS: tuple[int, ...]
"""Upper bounds of `Log.inter_token_counts`; one more bucket takes the rest."""

@final
class Log:
    """The bounded record store of one stream; safe to use from any thread."""

    def __new__(
        cls,
        *,
        max_bytes: int = 1048576,
        max_records: int = 65536,
        integrity: bytes | None = None,
        branches: int = 1,
        first_seq: int = 1,
    ) -> Self:
        """Keep the newest records within ``max_bytes`` of text and ``max_records``.

        Records that give way to ``max_records`` leave their text behind, which counts until bytes
        run out and is then cut from the front. With ``integrity``, the stream id, the text is
        checked by CRC-32 and Merkle leaves. ``first_seq`` above 1 makes a mirror without its
        beginning: the first batch that it unpacks tells what came before. Raises ValueError for a
        bound below 1 or above 2^30, for no or more than 256 ``branches``.
        """

    @staticmethod
    def mirror(
        batch: bytes,
        *,
        max_bytes: int = 1048576,
        max_records: int = 65536,
        integrity: bytes | None = None,
        branches: int = 1,
    ) -> Log:
        """A log that starts with ``batch``; its checks and tallies are those of the producer.

        Times between tokens are counted from there. Raises ValueError as `unpack` does.
        """

    @staticmethod
    def first_seq_of(batch: bytes) -> int:
        """The first seq in a batch. Raises ValueError if it is damaged."""

    def append(
        self,
        kind: int,
        text: str,
        *,
        choice: int = 0,
        token_count: int = 0,
        branch: int = 0,
        time_ns: int,
    ) -> int:
        """Append a record, wake parked readers through their notifiers, return the record's seq.

        ``time_ns`` is wall time in unix nanoseconds. A record larger than ``max_bytes`` is dropped
        at once: readers see a gap. Raises ValueError after `close`, for kind END and for a branch
        that the log does not have.
        """

    def close(self, outcome: str, settlement: str | None = None, *, time_ns: int) -> bool:
        """Write the terminal record, which is always kept; False if that has happened before.

        ``settlement`` is the compact JSON of `millstream.types.Settlement`. Raises ValueError for
        other text, and for an outcome that is not one word.
        """

    def pack(
        self, after: int, *, max_records: int = 64, max_bytes: int = 65536
    ) -> tuple[bytes, int, int] | None:
        """The records after seq ``after`` as (batch, first seq, last seq); None if nothing is due.

        Starts at the oldest record kept if ``after`` was overrun. The records of the batch take at
        most ``max_bytes``, unless the first alone is larger. Raises ValueError if ``after`` is
        ahead of the tail.
        """

    def unpack(self, batch: bytes) -> int:
        """Append the records of a batch that are not here yet, wake readers, return the tail.

        A terminal record closes the log. Raises ValueError, and changes nothing, for a damaged
        batch, one that leaves a hole, one that follows another text (with integrity), one of
        unknown branches and one that goes on after the terminal record.
        """

    def text(self, choice: int = 0, branch: int = 0) -> str:
        """All text of a choice, whether or not its records are kept.

        Raises ValueError if its beginning was cut.
        """

    def snapshot(self) -> list[tuple[int, int, int, str]]:
        """(branch, choice, omitted bytes, text) of every choice that has text, up to `tail`.

        ``omitted bytes`` of UTF-8 are cut from the beginning, 0 normally.
        """

    def finish_reason(self, choice: int = 0, branch: int = 0) -> str | None:
        """Text of the choice's FINISH record."""

    def inter_token_counts(self, branch: int = 0) -> list[int]:
        """Times between tokens of a choice by bucket of INTER_TOKEN_BOUNDS_NS, not cumulative.

        Tokens that came in one record share its time evenly.
        """

    def inter_token_sum_ns_of(self, branch: int = 0) -> int:
        """Sum of the times counted by `inter_token_counts`."""

    def token_count_of(self, branch: int = 0) -> int:
        """Tokens of the branch's token records, dropped ones included; 0 for an unknown branch."""

    def first_token_ns_of(self, branch: int = 0) -> int | None:
        """Wall time of the branch's first token record."""

    def last_token_ns_of(self, branch: int = 0) -> int | None:
        """Wall time of the branch's last token record."""

    def usage_of(self, branch: int = 0) -> str | None:
        """Text of the branch's USAGE record, JSON."""

    def error_of(self, branch: int = 0) -> str | None:
        """Text of the branch's ERROR record, JSON."""

    def outcome_of(self, branch: int = 0) -> str | None:
        """Text of the branch's BRANCH_END record; the usual stream of one branch has none."""

    def crc_at(self, seq: int) -> int | None:
        """CRC-32 of the text up to ``seq``; None without integrity or outside of what is kept."""

    def last_leaf_before(self, seq: int) -> int:
        """Seq of the last leaf's end at or before ``seq`` with all after it kept; 0 if none."""

    def checks(self) -> tuple[int, int, int, bytes] | None:
        """(token records, bytes, crc, Merkle root) of the text so far; None without integrity."""

    def leaves(self, after: int = 0) -> list[tuple[int, int, bytes]]:
        """(index, last seq, digest) of the finished leaves that end after seq ``after``."""

    @property
    def branches(self) -> int:
        """Requests that share the stream."""

    @property
    def closed(self) -> bool:
        """Whether the terminal record was written."""

    @property
    def tail(self) -> int:
        """The last seq written, 0 before the first."""

    @property
    def oldest(self) -> int:
        """The smallest seq still kept, ``tail + 1`` if nothing is."""

    @property
    def bytes(self) -> int:
        """Bytes of text kept, in records and left by dropped ones."""

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory that the log takes."""

    @property
    def waiting(self) -> int:
        """Readers parked at the moment."""

    @property
    def token_count(self) -> int:
        """Tokens of all token records, dropped ones included."""

    @property
    def first_token_ns(self) -> int | None:
        """Wall time of the first token record in any branch."""

    @property
    def last_token_ns(self) -> int | None:
        """Wall time of the last token record in any branch."""

    @property
    def last_token_seq(self) -> int | None:
        """Seq of the newest token record that is kept."""

    @property
    def inter_token_sum_ns(self) -> int:
        """Sum of the times counted by `inter_token_counts`, of branch 0."""

    @property
    def usage(self) -> str | None:
        """Text of the USAGE record of branch 0, JSON."""

    @property
    def error(self) -> str | None:
        """Text of the ERROR record written last in any branch, JSON."""

    @property
    def outcome(self) -> str | None:
        """How the stream ended: the word that the terminal record begins with."""

    @property
    def settlement(self) -> str | None:
        """What it was charged in the end: JSON of `millstream.types.Settlement`, if known."""

@final
class Reader:
    """One client connection that follows a log."""

    def __new__(cls, log: Log, encoder: Encoder, *, after: int = 0) -> Self:
        """Read on after seq ``after``, with a copy of the encoder (its `resumed` copy if not 0).

        Raises ValueError if ``after`` is ahead of the tail.
        """

    def take(self, max_bytes: int = 65536) -> bytes:
        """Frames of the due records; ends with the frame that reaches ``max_bytes``.

        Empty if nothing is due, if the due records have no frames in this dialect, or if `gap` is
        set.
        """

    def park(self, waiter: object, notifier: Notifier) -> bool:
        """Leave a waiter for the next record; False, and nothing is left, if something is due.

        The waiter is handed out once, by the `Hub` or the notifier of its loop; a second call
        replaces it. False also at the end of the stream and at a gap.
        """

    def unpark(self) -> None:
        """Take the waiter back, if there is one; it may be on its way out already."""

    def skip_gap(self) -> bool:
        """Go on at the oldest record of `gap`; False if there is none."""

    @property
    def finished(self) -> bool:
        """Whether the terminal record has been given out, here or to the client before."""

    @property
    def cursor(self) -> int:
        """The last seq given out."""

    @property
    def gap(self) -> tuple[int, int] | None:
        """(oldest, latest) after an overrun: all after `cursor` and before oldest is lost."""

@final
class Notifier:
    """Wakes the waiters of one event loop from any thread; one per loop."""

    def __new__(cls) -> Self:
        """Raises OSError if the system has no descriptor to give."""

    def fileno(self) -> int:
        """Descriptor that becomes readable when waiters are ready; many collapse into one."""

    def ready(self) -> list[object]:
        """Silence the descriptor and take the waiters to wake."""

# --- ring --------------------------------------------------------------------------------------

@final
class RingConsumer:
    """The worker's end of a ring; releases memory and descriptors when it is collected."""

    @staticmethod
    def create(capacity: int = ...) -> RingConsumer:
        """Make a ring of ``capacity`` bytes, a power of two from 4 KiB to 1 GiB.

        Raises ValueError for another capacity, OSError when the system gives no memory.
        """

    def memory_fd(self) -> int:
        """Descriptor of the memory, for the producer; stays owned by this object."""

    def fileno(self) -> int:
        """Descriptor that becomes readable when records are due."""

    def notify_fd(self) -> int:
        """Descriptor that wakes, for the producer; ``fileno()`` where eventfd exists."""

    def drain(self) -> list[tuple[int, int, int, int, int, str]]:
        """Clear the wake-up and take (stream, time_ns, kind, choice, token_count, text) records.

        Raises ConnectionError, for good, once the producer has broken the protocol.
        """

@final
class RingProducer:
    """The engine's end of a ring; takes over both descriptors, also when it raises."""

    def __new__(cls, memory_fd: int, event_fd: int) -> Self:
        """Open the ring behind two descriptors of a RingConsumer.

        Raises ConnectionError if they hold no fresh ring, OSError, ValueError.
        """

    def write(
        self,
        stream: int,
        kind: int,
        text: str,
        *,
        choice: int = 0,
        token_count: int = 0,
        time_ns: int,
    ) -> None:
        """Add a record, visible after a flush; never blocks.

        On a full ring records wait, token text merged per (stream, choice). Token text of any
        length is split; raises ValueError for another kind beyond 256 KiB. On a ring that the
        consumer has corrupted the record is dropped and ``flush`` raises.
        """

    def flush(self) -> int:
        """Show what was written and wake the consumer once; returns the records still waiting.

        Raises ConnectionError, for good, once the consumer has broken the protocol.
        """

    def discard(self, stream: int) -> None:
        """Drop what waits of a stream."""

    @property
    def pending(self) -> int:
        """Records that wait for room."""

# --- sse ---------------------------------------------------------------------------------------

_Record = tuple[int, int, int, int, int, str] | tuple[int, int, int, int, int, str, int]

@final
class Encoder:
    """Turns records into frames; one per reader.

    ``epoch`` asks for event ids ``<epoch>-<seq>``, with ``integrity`` ``<epoch>-<seq>-<crc>``:
    ``id`` lines in SSE, a member in NDJSON. ``retry_ms`` comes with the first frame. ``fields``
    repeats the metadata as lines ``model-id``, ``chunk-id`` and ``token-count`` (SSE). ``branches``
    names (model, chunk id) of each branch instead of ``model`` and ``chunk_id``. ``response`` is
    the Response object of dialect ``responses``, as JSON without status, output, usage, error and
    incomplete_details; its events up to ``starting_after`` are left out, and so are its prelude
    and those of records up to ``after_seq``, which are counted all the same. Raises ``ValueError``
    on an unknown dialect or framing, on no or more than 256 branches (one in ``responses``) and on
    a ``response`` that is no object, ``OverflowError`` on a number outside 64 bits without sign.
    """

    def __new__(
        cls,
        *,
        dialect: str,
        framing: str = "sse",
        chunk_id: str,
        model: str,
        created: int,
        include_usage: bool = False,
        metadata: bool = False,
        epoch: int | None = None,
        integrity: bool = False,
        fields: bool = False,
        retry_ms: int | None = None,
        stream_id: str = "",
        branches: Sequence[tuple[str, str]] | None = None,
        response: str | None = None,
        starting_after: int | None = None,
        after_seq: int | None = None,
    ) -> Encoder: ...
    def resumed(self) -> Encoder:
        """A copy for a reader that joins later: what stands before the first record is left out."""

    def prelude(self) -> bytes:
        """The frames that stand before the first record; given once, here or by `encode`.

        Only dialect ``responses`` has any. A reader made afterwards leaves them out.
        """

    def encode(self, records: Sequence[_Record]) -> bytes:
        """The frames of records ``(seq, time_ns, kind, choice, token_count, text[, branch])``.

        What a log would know is computed here from seq 1 on: the checks of ``integrity``, with
        ``stream_id`` in their leaves, and the whole text of a Response. After a missing seq the
        checks are left out. Raises ``ValueError`` on an unknown kind or branch and on text that is
        not Unicode (lone surrogates).
        """

@final
class SseEvent:
    """One dispatched event; ``retry`` in milliseconds."""

    def __new__(cls, event: str, data: str, id: str = "", retry: int | None = None) -> SseEvent: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def event(self) -> str: ...
    @property
    def data(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def retry(self) -> int | None: ...

class SseEventTooLarge(ValueError):
    """An event is larger than its parser allows; the parser takes nothing more."""

@final
class SseParser:
    """An incremental parser of one event stream.

    ``max_event_bytes`` bounds the lines of one event; passing it raises ``SseEventTooLarge`` at
    every call from then on, after the events before it have been given out.
    """

    def __new__(cls, *, max_event_bytes: int = 1048576) -> SseParser: ...
    def feed(self, data: Buffer) -> list[SseEvent]:
        """Takes the next bytes and gives the events that they complete."""

    def finish(self) -> bool:
        """Ends the stream and says whether an unfinished event was discarded.

        The parser is then ready for the next connection of the same source.
        """

    @property
    def last_event_id(self) -> str: ...
    @property
    def retry(self) -> int | None: ...

# --- toml --------------------------------------------------------------------------------------

def parse_toml(text: str) -> dict[str, object]:
    """What ``tomllib.loads`` makes of this text, without the GIL while it is parsed.

    Raises ``ValueError``, without a reason, for what is not TOML, and also for dates, for whole
    numbers of more than 64 bits and for what is nested deeply.
    """
