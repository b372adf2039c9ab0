"""From the settings to the admission of one worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from millstream.admission import Admission, sole_worker
from millstream.assembly.limiter import open_limiter
from millstream.assembly.limits import book_of, limited

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack
    from pathlib import Path

    from millstream.admission.queue_observer import QueueObserver
    from millstream.admission.valkey import LimiterObserver
    from millstream.config import Settings

    class AdmissionObserver(LimiterObserver, QueueObserver, Protocol):
        """What the limiter and its queue tell about themselves."""


POLL_NS = 100_000_000
"""How often those who wait look whether a stream of another worker has ended."""


async def open_admission(
    settings: Settings,
    stack: AsyncExitStack,
    *,
    directory: Path,
    clock: Callable[[], int],
    observer: AdmissionObserver | None = None,
) -> Admission:
    """The limits of the settings; the stack hands over what is still on its way, in the end.

    ``directory`` belongs to the server. Raises `ConfigError` if limits are counted in the memory of
    this worker and there is another one.
    """
    shared = settings.limiter.kind != "memory"
    if not shared and limited(settings):
        await stack.enter_async_context(sole_worker(directory))
    limiter = open_limiter(settings, clock=clock, observer=observer)
    stack.push_async_callback(limiter.close)
    await limiter.start()
    return Admission(
        limiter,
        book_of(settings),
        clock=clock,
        poll_ns=POLL_NS if shared else None,
        observer=observer,
    )
