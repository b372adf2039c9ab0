"""The Rust token path; proved against the built module by stubtest."""

from typing import Self, final

# --- attention ---------------------------------------------------------------------------------

# --- detokenizer -------------------------------------------------------------------------------

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
