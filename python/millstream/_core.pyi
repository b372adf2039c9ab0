"""The Rust token path; proved against the built module by stubtest."""

from collections.abc import Iterable
from typing import Self, final

# --- attention ---------------------------------------------------------------------------------

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

    def __new__(cls, vocabulary: Vocabulary, stop: list[str] = []) -> Self:
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

# --- limiter -----------------------------------------------------------------------------------

# --- log ---------------------------------------------------------------------------------------

# --- ring --------------------------------------------------------------------------------------

@final
class RingConsumer:
    """The worker's end of a ring; releases memory and descriptors when it is collected."""

    @staticmethod
    def create(capacity: int = 8388608) -> RingConsumer:
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
