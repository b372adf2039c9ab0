from __future__ import annotations

import hashlib

from millstream.client.merkle import Merkle
from tests.reference.log import merkle_root


def test_the_root_is_that_of_the_definition_for_every_size() -> None:
    tree, leaves = Merkle(), list[bytes]()
    for size in range(130):
        assert tree.root == merkle_root(leaves)
        assert len(tree.peaks) == size.bit_count()
        leaves.append(hashlib.sha256(bytes([size])).digest())
        tree = tree.push(leaves[-1])


def test_a_tree_is_not_changed_by_its_successors() -> None:
    tree = Merkle().push(b"a" * 32)
    before = tree.root
    tree.push(b"b" * 32)
    assert tree.root == before == b"a" * 32
