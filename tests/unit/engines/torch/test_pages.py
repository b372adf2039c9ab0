"""Reference counts and prefix reuse of the page pool."""

from __future__ import annotations

import pytest

from millstream.engines.torch.pages import OutOfPages, PagePool, page_key


def keys(count: int) -> list[bytes]:
    chain = [b""]
    for index in range(count):
        chain.append(page_key(chain[-1], [index]))
    return chain[1:]


def test_allocated_pages_are_distinct_and_counted() -> None:
    pool = PagePool(4)
    assert sorted(pool.allocate(3)) == [0, 1, 2]
    assert (pool.free, pool.used) == (1, 3)


def test_asking_for_more_than_is_free_takes_nothing() -> None:
    pool = PagePool(2)
    with pytest.raises(OutOfPages, match="3 pages asked for, 2 free"):
        pool.allocate(3)
    assert pool.free == 2


def test_a_shared_page_is_free_only_after_its_last_release() -> None:
    pool = PagePool(2)
    pages = pool.allocate(1)
    pool.share(pages)
    pool.release(pages)
    assert pool.used == 1
    pool.release(pages)
    assert pool.used == 0


def test_match_finds_the_longest_known_prefix_and_stops_at_a_gap() -> None:
    pool = PagePool(4)
    names, pages = keys(3), pool.allocate(3)
    pool.register(pages[0], names[0])
    pool.register(pages[2], names[2])
    assert pool.match(names) == [pages[0]]
    pool.register(pages[1], names[1])
    assert pool.match(names) == pages


def test_a_released_prefix_can_be_taken_back_until_its_page_is_reused() -> None:
    pool = PagePool(2)
    [name], pages = keys(1), pool.allocate(1)
    pool.register(pages[0], name)
    pool.release(pages)
    assert pool.match([name]) == pages
    pool.share(pages)
    assert (pool.used, pool.references(pages[0])) == (1, 1)
    pool.release(pages)
    pool.allocate(2)
    assert pool.match([name]) == []


def test_pages_without_a_key_are_reused_before_remembered_ones() -> None:
    pool = PagePool(3)
    first, second, third = pool.allocate(3)
    pool.register(first, keys(1)[0])
    pool.release([first])
    pool.release([second, third])
    assert set(pool.allocate(2)) == {second, third}


def test_the_end_of_a_prefix_is_reused_before_its_start() -> None:
    pool = PagePool(3)
    names, pages = keys(3), pool.allocate(3)
    for page, name in zip(pages, names, strict=True):
        pool.register(page, name)
    pool.release(pages)
    pool.allocate(1)
    assert pool.match(names) == pages[:2]


def test_the_first_page_of_a_key_keeps_it() -> None:
    pool = PagePool(2)
    [name], (first, second) = keys(1), pool.allocate(2)
    pool.register(first, name)
    pool.register(second, name)
    pool.release([second])
    pool.allocate(1)
    assert pool.match([name]) == [first]


def test_forgetting_all_leaves_references_alone() -> None:
    pool = PagePool(2)
    [name], pages = keys(1), pool.allocate(1)
    pool.register(pages[0], name)
    pool.forget_all()
    assert pool.match([name]) == []
    assert pool.used == 1


def test_keys_depend_on_tokens_and_on_everything_before() -> None:
    one, other = page_key(b"", [1, 2]), page_key(b"", [2, 1])
    assert one != other
    assert page_key(one, [3]) != page_key(other, [3])
    assert page_key(one, [3]) == page_key(page_key(b"", [1, 2]), [3])


@pytest.mark.parametrize(("tokens", "pages"), [(0, 0), (1, 1), (32, 1), (33, 2)])
def test_tokens_take_whole_pages(tokens: int, pages: int) -> None:
    assert PagePool(1).pages_for(tokens) == pages
