"""Every reader has the producer's text, or is told exactly what of it is missing.

Whatever the records, the bounds, the format, the place where a connection breaks, and whether the
reader is at the producer or at a mirror in another process.
"""

from __future__ import annotations

from itertools import islice, product

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.types import Kind
from tests.property.followers import Client, Mirror, Producer, Source, Style
from tests.reference.sse import Record

STYLES = [Style(*style) for style in product(["native", "chat"], ["sse", "ndjson"], [False, True])]
WORDS = {
    Kind.FINISH: "stop",
    Kind.USAGE: '{"total_tokens":3}',
    Kind.ERROR: '{"message":"no"}',
    Kind.BRANCH_END: "completed",
}
FIGURES = '{"charged":9,"reserved":40,"partial":false,"remaining_tokens":null}'
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def streams(draw: st.DrawFn) -> list[Record]:
    """Tokens of several choices in any interleaving, other records between, an outcome."""
    kinds = draw(st.lists(st.sampled_from([*[Kind.TOKEN] * 16, *WORDS]), max_size=70))
    records = [
        Record(
            seq=seq,
            time_ns=seq,
            kind=kind,
            choice=draw(st.sampled_from([0, 0, 1])),
            token_count=1,
            text=WORDS.get(kind) or draw(TEXT),
            branch=draw(st.integers(0, 1)),
        )
        for seq, kind in enumerate(kinds, 1)
    ]
    end = draw(st.sampled_from(["completed", "cancelled", f"completed {FIGURES}"]))
    return [*records, Record(len(records) + 1, 1, Kind.END, 0, 0, end)]


BOUNDS = st.fixed_dictionaries(
    {
        "max_bytes": st.integers(9, 120) | st.just(1 << 16),
        "max_records": st.integers(1, 30) | st.just(1 << 10),
    }
)
FOLLOWERS = st.lists(
    st.tuples(st.sampled_from(STYLES), st.booleans(), st.booleans()), min_size=1, max_size=4
)
# How many records are written, how many of them shipped; who reads how much, and loses what.
STEPS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.integers(0, 12),
        st.integers(0, 3),
        st.integers(1, 900),
        st.none() | st.integers(0, 2000),
    ),
    max_size=40,
)


class Scene:
    """One stream, its mirror, and clients who come with their first read."""

    def __init__(
        self,
        stream: list[Record],
        bounds: dict[str, int],
        mirrored: dict[str, int],
        followers: list[tuple[Style, bool, bool]],
    ) -> None:
        self.producer = Producer(**bounds)
        self.mirror = Mirror(self.producer, **mirrored)
        self._waiting = iter(stream)
        self._followers = followers
        self._clients: dict[int, Client] = {}

    def write(self, count: int | None = None) -> None:
        """Append the next records, or all that are left."""
        for record in islice(self._waiting, count):
            self.producer.append(record)

    def client(self, number: int) -> Client:
        """The client of this number."""
        number %= len(self._followers)
        if number not in self._clients:
            style, remote, snapshots = self._followers[number]
            source: Source = self.mirror if remote else self.producer
            self._clients[number] = Client(self.producer, source, style, snapshots=snapshots)
        return self._clients[number]

    def finish(self) -> None:
        """Let everybody reach the end, and look at what they have."""
        self.write()
        while self.mirror.ship(64):
            pass
        for number in range(len(self._followers)):
            client = self.client(number)
            client.read(1)
            while not client.finished:
                client.read(1 << 16)
            client.check()


@settings(max_examples=400, deadline=None)
@given(stream=streams(), bounds=BOUNDS, mirrored=BOUNDS, followers=FOLLOWERS, steps=STEPS)
def test_every_text_is_whole_or_a_gap_says_what_is_missing(
    stream: list[Record],
    bounds: dict[str, int],
    mirrored: dict[str, int],
    followers: list[tuple[Style, bool, bool]],
    steps: list[tuple[int, int, int, int, int | None]],
) -> None:
    scene = Scene(stream, bounds, mirrored, followers)
    for written, shipped, reader, max_bytes, cut in steps:
        scene.write(written)
        scene.mirror.ship(shipped)
        scene.client(reader).read(max_bytes, cut)
    scene.finish()
