from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream._core import Detokenizer, Vocabulary
from tests.reference.detokenizer import Detokenizer as Twin

_ALPHABET = st.sampled_from(["a", "b", "c", "é", "è", "漢", "🦀", "\ufffd", "\n"])
_TEXT = st.text(_ALPHABET, min_size=1, max_size=5)
# Pieces of characters and of nonsense: most sequences cut and break characters.
_TOKEN = st.one_of(
    _TEXT.map(str.encode),
    st.binary(max_size=3),
    st.tuples(_TEXT, st.integers(0, 4)).map(lambda cut: cut[0].encode()[cut[1] :]),
    st.tuples(_TEXT, st.integers(1, 4)).map(lambda cut: cut[0].encode()[: -cut[1]]),
)


@st.composite
def _cases(draw: st.DrawFn) -> tuple[list[bytes], set[int], list[int], list[str]]:
    tokens = draw(st.lists(_TOKEN, min_size=1, max_size=8))
    identity = st.integers(0, len(tokens) - 1)
    skip = draw(st.sets(identity, max_size=2))
    ids = draw(st.lists(identity, max_size=30))
    return tokens, skip, ids, draw(st.lists(_TEXT, max_size=4))


@given(_cases())
@settings(max_examples=500, deadline=None)
def test_shows_at_every_step_what_the_twin_shows(
    case: tuple[list[bytes], set[int], list[int], list[str]],
) -> None:
    tokens, skip, ids, stop = case
    ours, twin = Detokenizer(Vocabulary(tokens, skip), stop), Twin(tokens, skip, stop)
    for token in ids:
        assert ours.push(token) == twin.push(token)
        assert ours.stopped == twin.stopped
    assert ours.finish() == twin.finish()
    assert ours.stopped == twin.stopped


@given(_cases())
@settings(max_examples=500, deadline=None)
def test_all_together_is_the_lossy_decoding_up_to_the_stop(
    case: tuple[list[bytes], set[int], list[int], list[str]],
) -> None:
    tokens, skip, ids, stop = case
    detokenizer = Detokenizer(Vocabulary(tokens, skip), stop)
    shown = "".join([*map(detokenizer.push, ids), detokenizer.finish()])
    whole = b"".join(tokens[token] for token in ids if token not in skip).decode("utf-8", "replace")
    assert whole.startswith(shown)
    assert not any(string in shown for string in stop)
    assert detokenizer.stopped == any(string in whole for string in stop)
    if not detokenizer.stopped:
        assert shown == whole
