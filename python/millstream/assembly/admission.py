"""From the settings to the admission of one worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from millstream.admission import Admission
from millstream.assembly.limiter import open_limiter
from millstream.assembly.limits import book_of, check_limits, counted_here
from millstream.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack

    from millstream.admission.queue_observer import QueueObserver
    from millstream.admission.valkey import LimiterObserver
    from millstream.assembly.companions import Companions
    from millstream.config import Settings

    class AdmissionObserver(LimiterObserver, QueueObserver, Protocol):
        """What the limiter and its queue tell about themselves."""


PATIENCE_SECONDS = 5.0
"""How long a worker waits for one that it takes the place of."""
POLL_NS = 100_000_000
"""How often those who wait look whether a stream of another worker has ended."""


async def open_admission(
    settings: Settings,
    stack: AsyncExitStack,
    *,
    others: Companions,
    clock: Callable[[], int],
    observer: AdmissionObserver | None = None,
) -> Admission:
    """The limits of the settings; the stack hands over what is still on its way, in the end.

    ``clock`` is monotonic, in nanoseconds. Raises `ConfigError` if limits are counted in the memory
    of this worker and there are ``others``, and for limits that cannot be counted.
    """
    check_limits(settings)
    if counted_here(settings) and not await others.left_alone(PATIENCE_SECONDS):
        raise granted_by_each()
    limiter = open_limiter(settings, clock=clock, observer=observer)
    stack.push_async_callback(limiter.close)
    await limiter.start()
    poll_ns = None if settings.limiter.kind == "memory" else POLL_NS
    return Admission(limiter, book_of(settings), clock=clock, poll_ns=poll_ns, observer=observer)


def granted_by_each() -> ConfigError:
    """The failure of limits in memory that another worker would grant in full, too."""
    return ConfigError(
        "limits are kept in the memory of one worker, and this server has several: "
        "each would grant every limit in full. Set server.workers = 1 (or Granian's "
        "--workers 1), or remove the limits."
    )
