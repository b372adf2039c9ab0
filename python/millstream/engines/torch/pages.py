"""The page pool: which pages of the key-value cache are free, shared or remembered."""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence

PageKey = bytes


def page_key(parent: PageKey, tokens: Sequence[int]) -> PageKey:
    """The name of a full page: a digest over its tokens and everything before them.

    A cryptographic digest, because prompts come from strangers: with ``hash()`` one of them could
    build a prompt that collides with, and so poisons, the prefix of another.
    """
    return hashlib.blake2b(array("q", tokens).tobytes(), digest_size=16, key=parent).digest()


class OutOfPages(Exception):
    """More pages were asked for than are free."""


class PagePool:
    """Reference counts over a fixed number of pages, with reuse of known prefixes.

    A page nobody refers to is free, but keeps its content and its key until it is handed out
    again, oldest first: a later sequence with the same prefix takes it back by `match`.
    Only full pages ever get a key, so a shared page is never written to.
    """

    def __init__(self, num_pages: int, page_size: int = 32) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self._references = [0] * num_pages
        self._keys: list[PageKey | None] = [None] * num_pages
        self._pages: dict[PageKey, int] = {}
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_pages))

    @property
    def free(self) -> int:
        """Pages that can be allocated."""
        return len(self._free)

    @property
    def used(self) -> int:
        """Pages that at least one sequence refers to."""
        return self.num_pages - len(self._free)

    def references(self, page: int) -> int:
        """How many sequences refer to ``page``."""
        return self._references[page]

    def pages_for(self, tokens: int) -> int:
        """Pages that hold this many tokens."""
        return -(-tokens // self.page_size)

    def match(self, keys: Iterable[PageKey]) -> list[int]:
        """The pages of the longest known prefix of ``keys``; they are not yet referred to."""
        found = []
        for key in keys:
            page = self._pages.get(key)
            if page is None:
                break
            found.append(page)
        return found

    def share(self, pages: Iterable[int]) -> None:
        """Refer to pages that `match` has found."""
        for page in pages:
            if self._references[page] == 0:
                del self._free[page]
            self._references[page] += 1

    def allocate(self, count: int) -> list[int]:
        """``count`` pages of one's own, their former content forgotten; raises `OutOfPages`."""
        if count > len(self._free):
            raise OutOfPages(f"{count} pages asked for, {len(self._free)} free")
        taken = []
        for _ in range(count):
            page, _ = self._free.popitem(last=False)
            self._forget(page)
            self._references[page] = 1
            taken.append(page)
        return taken

    def register(self, page: int, key: PageKey) -> None:
        """Remember that ``page`` is full and holds ``key``; the first page of a key keeps it."""
        if key not in self._pages and self._keys[page] is None:
            self._pages[key] = page
            self._keys[page] = key

    def release(self, pages: Sequence[int]) -> None:
        """Give up one reference to each page.

        The last pages of a sequence are reused before its first, since a prefix is worth more the
        earlier it is; pages without a key are worth nothing and are reused at once.
        """
        for page in reversed(pages):
            self._references[page] -= 1
            if self._references[page] == 0:
                self._free[page] = None
                if self._keys[page] is None:
                    self._free.move_to_end(page, last=False)

    def forget_all(self) -> None:
        """Forget every prefix, when the content of pages cannot be trusted any more."""
        for page in range(self.num_pages):
            self._forget(page)

    def _forget(self, page: int) -> None:
        key = self._keys[page]
        if key is not None:
            del self._pages[key]
            self._keys[page] = None
