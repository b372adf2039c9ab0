"""Whether a stream of one request can be found by the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.errors import UnsupportedParameter

if TYPE_CHECKING:
    from millstream.api.idempotency import Keyed
    from millstream.api.services import Services


def refuse_unless_found_again(
    services: Services, *, resumable: bool, key: Keyed | None, name: str = "resumable"
) -> None:
    """Raise `UnsupportedParameter` where the next request may reach a worker that cannot know.

    ``name`` is the parameter that asks for it.
    """
    if services.store.shared or not (resumable or key is not None):
        return
    if services.server.workers > 1 or services.several_workers():
        wish = "Idempotency-Key" if key is not None else name
        raise UnsupportedParameter(
            f'{wish}: this server has several workers, and with store.kind = "memory" each '
            'knows its own streams only. Set store.kind = "valkey", or server.workers = 1.',
            param=wish,
        )
