"""Every connection takes a descriptor, and the usual limit is a thousand."""

from __future__ import annotations

import resource


def raise_descriptor_limit() -> None:
    """Let this process and its workers open as many files as the system allows at all."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
