"""A Merkle tree that grows leaf by leaf; shape and prefixes of RFC 6962."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import reduce


@dataclass(frozen=True, slots=True)
class Merkle:
    """The tree over ``leaves`` digests: the roots of its full sub-trees, the largest first."""

    peaks: tuple[bytes, ...] = ()
    leaves: int = 0

    def push(self, leaf: bytes) -> Merkle:
        """The tree with one more leaf."""
        peaks, node, full = list(self.peaks), leaf, self.leaves
        while full & 1:
            node = _join(peaks.pop(), node)
            full >>= 1
        return Merkle((*peaks, node), self.leaves + 1)

    @property
    def root(self) -> bytes:
        """The digest of all leaves; SHA-256 of nothing if there are none."""
        if not self.peaks:
            return hashlib.sha256().digest()
        return reduce(lambda right, left: _join(left, right), reversed(self.peaks))


def _join(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
