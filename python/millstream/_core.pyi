"""The Rust token path; proved against the built module by stubtest."""

from collections.abc import Sequence
from typing import Literal, final

# --- attention ---------------------------------------------------------------------------------

# --- detokenizer -------------------------------------------------------------------------------

# --- hub ---------------------------------------------------------------------------------------

# --- limiter -----------------------------------------------------------------------------------

@final
class Quota:
    """What one key may use; a dimension that is left out has no limit.

    ``rate`` requests come back every ``period_ns`` and ``burst`` fit into the bucket, so any window
    W may see ``burst + rate * W``; a rate of 0 refuses everything. At most ``tokens`` in any
    ``window_ns``, counted in ``slots`` parts. At most ``concurrency`` open leases. ValueError for
    values out of range or a half-given dimension.
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

@final
class Refusal:
    """Why nothing was taken; false in a condition."""

    @property
    def scope(self) -> str:
        """The key that refuses."""
    @property
    def dimension(self) -> Literal["requests", "tokens", "concurrency"]:
        """What ran out there."""
    @property
    def wait_ns(self) -> int:
        """Nanoseconds after which the same call is admitted if nobody else comes.

        When open leases are in the way nobody can know: then the least time that the other
        dimensions need, which may be 0. A permanent refusal has 0.
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
        """The capacity: burst, tokens per window, or open leases."""
    @property
    def remaining(self) -> int:
        """What is left of it, never below 0."""
    @property
    def reset_ns(self) -> int:
        """Nanoseconds until all of it is back; 0 for concurrency."""

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
        """Resolves 1 to 8 keys with their quotas, for any number of decisions.

        A key that is found under another quota goes on under the new one.
        """
    def reserve(
        self, scopes: Scopes, now_ns: int, tokens: int = 0, requests: int = 1, prompt: int = 0
    ) -> Lease | Refusal:
        """Takes the cost from every scope and opens a lease on it, or takes nothing.

        ``prompt`` tells how many of the ``tokens`` are spent even if nothing is generated.
        """
    def take(
        self, scopes: Scopes, now_ns: int, tokens: int = 0, requests: int = 1
    ) -> Literal[True] | Refusal:
        """Takes the cost from every scope for good, or nothing; concurrency is left alone."""
    def settle(self, lease: Lease, actual: int, now_ns: int) -> bool:
        """Ends a lease with the tokens that were really used; False if it had ended before."""
    def cancel(self, lease: Lease, emitted: int, now_ns: int) -> bool:
        """Ends a lease at its prompt and the emitted tokens; False if it had ended before."""
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

# --- ring --------------------------------------------------------------------------------------

# --- sse ---------------------------------------------------------------------------------------
