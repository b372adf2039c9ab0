"""Bugs that other limiters were reported for, with the right answers, as traces.

Numbers at the traces are the rows of the collection that they come from. Times and waits are whole
microseconds, or played as such, so that a limiter that counts in them answers the same.
"""

from __future__ import annotations

from tests.reference.limiter_key import Quota
from tests.reference.limiter_traces import Counted, Left, Refused, Step, Trace

MILLISECOND = 1_000_000
SECOND = 1_000 * MILLISECOND
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


def tokens(limit: int, window_ns: int = MINUTE) -> Quota:
    return Quota(tokens=limit, window_ns=window_ns)


def requests(rate: int, burst: int, period_ns: int = SECOND) -> Quota:
    return Quota(rate=rate, burst=burst, period_ns=period_ns)


def both(limit: int, burst: int, rate: int = 1, window_ns: int = MINUTE) -> Quota:
    return Quota(rate=rate, burst=burst, tokens=limit, window_ns=window_ns)


ACCOUNTING = (
    Trace(  # 1
        "open reservations count before they are settled",
        ("litellm#18730", "ai-gateway#680"),
        {"g": tokens(100)},
        (
            Step(0, "reserve", {"tokens": 58, "lease": "a"}, True),
            Step(0, "reserve", {"tokens": 97}, Refused("tokens", "g", False)),
            Step(0, "reserve", {"tokens": 100}, Refused("tokens", "g", False)),
            Step(0, "reserve", {"tokens": 175}, Refused("tokens", "g", True)),
            Step(0, "reserve", {"tokens": 42, "lease": "b"}, True),
            Step(0, "peek", {}, Left(tokens=0)),
        ),
    ),
    Trace(  # 2
        "requests and tokens have windows of their own",
        ("litellm#24677", "litellm PR#29424"),
        {"k": Quota(rate=6, period_ns=MINUTE, burst=6, tokens=186, window_ns=MINUTE)},
        (
            Step(tuple(range(0, MINUTE, 10 * SECOND)), "take", {"tokens": 31}, True),
            Step(59 * SECOND, "take", {"tokens": 31}, Refused("tokens", "k", False)),
            Step(0, "retry", {}, True),
            Step(3 * MINUTE, "take", {"tokens": 31}, True),
            Step(3 * MINUTE, "peek", {}, Left(tokens=186 - 31)),
        ),
    ),
    Trace(  # 3
        "rejected reservations leave no trace",
        ("litellm#27001",),
        {"g": both(100, 60)},
        (
            Step(0, "reserve", {"tokens": 60, "lease": "a"}, True),
            Step((0,) * 50, "reserve", {"tokens": 41}, Refused("tokens")),
            Step(0, "peek", {}, Left(requests=59, tokens=40)),
            Step(0, "reserve", {"tokens": 40, "lease": "b"}, True),
        ),
    ),
    Trace(  # 4
        "a cancelled stream pays for its prompt and what was emitted",
        ("litellm#35098", "TokenHub#102"),
        {"g": tokens(1_000)},
        (
            Step(0, "reserve", {"tokens": 500, "prompt": 120, "lease": "a"}, True),
            Step(SECOND, "cancel", {"lease": "a", "emitted": 40}, True),
            Step(SECOND, "peek", {}, Left(tokens=1_000 - 160)),
            Step(SECOND, "cancel", {"lease": "a", "emitted": 0}, False),
            Step(SECOND, "settle", {"lease": "a", "actual": 0}, False),
            Step(SECOND, "peek", {}, Left(tokens=1_000 - 160)),
        ),
    ),
    *(
        Trace(  # 6
            f"a cost of {cost} is an error and changes nothing",
            ("limits#362",),
            {"g": both(10, 10)},
            (
                Step(0, "take", {"tokens": 10, "requests": 10}, True),
                Step(0, "reserve", {"tokens": cost}, ValueError),
                Step(0, "reserve", {"tokens": 1, "requests": cost}, ValueError),
                Step(0, "reserve", {"tokens": 1, "kibibytes": cost}, ValueError),
                Step(0, "take", {"tokens": cost}, ValueError),
                Step(0, "take", {"tokens": 1, "requests": cost}, ValueError),
                Step(0, "take", {"tokens": 1}, Refused()),
                Step(0, "peek", {}, Left(requests=0, tokens=0)),
            ),
        )
        for cost in (-5, -1, 2**40 + 1)
    ),
    Trace(  # 7
        "a refused cost leaves room for a smaller one, in tokens",
        ("upstash/ratelimit-js#161", "upstash/ratelimit-py#15"),
        {"g": both(10, 10)},
        (
            Step(0, "take", {"tokens": 8, "requests": 0}, True),
            Step(0, "take", {"tokens": 5, "requests": 0}, Refused("tokens")),
            Step(0, "take", {"tokens": 1, "requests": 0}, True),
            Step(0, "peek", {}, Left(requests=10, tokens=1)),
        ),
    ),
    Trace(  # 7
        "a refused cost leaves room for a smaller one, in requests",
        ("upstash/ratelimit-js#161", "upstash/ratelimit-py#15"),
        {"g": both(10, 10)},
        (
            Step(0, "take", {"requests": 8}, True),
            Step(0, "take", {"requests": 5}, Refused("requests")),
            Step(0, "take", {"requests": 1}, True),
            Step(0, "peek", {}, Left(requests=1, tokens=10)),
        ),
    ),
    Trace(  # 8
        "a second dimension or scope that rejects charges nothing",
        ("aoai-simulated-api#51", "milvus#25597", "envoyproxy/ratelimit#440"),
        {
            "g": both(100, 10),
            "m": Quota(
                rate=1,
                burst=10,
                tokens=20,
                window_ns=MINUTE,
                concurrency=1,
                kibibytes=64,
            ),
        },
        (
            Step(0, "reserve", {"tokens": 10, "kibibytes": 60, "lease": "a"}, True),
            Step(0, "reserve", {"tokens": 11}, Refused("concurrency", "m", False)),
            Step(0, "reserve", {"tokens": 1, "kibibytes": 65}, Refused("bytes", "m", True)),
            Step(0, "reserve", {"tokens": 21}, Refused("tokens", "m", True)),
            Step(0, "settle", {"lease": "a", "actual": 10}, True),
            Step(0, "reserve", {"tokens": 11}, Refused("tokens", "m", False)),
            Step(0, "peek", {"only": ("g",)}, Left(requests=9, tokens=90)),
            Step(0, "peek", {"only": ("m",)}, Left(9, 10, 1, 64)),
        ),
    ),
)

TIME = (
    Trace(  # 9
        "two bursts around a boundary stay within one window",
        ("fixed windows, limits 5.8.0",),
        {"g": tokens(100, SECOND)},
        (
            Step(
                tuple(at * MILLISECOND for at in range(970, 1_030) for _ in range(4)),
                "take",
                {"tokens": 1},
                Counted(100, 100),
            ),
        ),
    ),
    Trace(  # 10
        "burst and rate together bound a greedy minute",
        ("governor#16",),
        {"g": requests(1_200, 1_200, MINUTE)},
        (
            Step(0, "take", {"requests": 1_200}, True),
            Step(
                tuple(range(0, MINUTE + 1, 10 * MILLISECOND)),
                "take",
                {},
                Counted(1_200, 1_200),
            ),
        ),
    ),
    Trace(  # 11
        "a clock set back eight hours loses no more than the wait",
        ("juju/ratelimit#26", "langchain#24961", "MediaWiki-MCP-Server#557"),
        {"g": both(10, 10, 10, SECOND)},
        (
            Step(0, "take", {"tokens": 10, "requests": 10}, True),
            Step(-8 * HOUR, "take", {}, Refused("requests", wait_ns=100 * MILLISECOND)),
            Step(-8 * HOUR, "peek", {}, Left(requests=0, tokens=0)),
            Step((100 * MILLISECOND - 8 * HOUR,) * 3, "take", {}, Counted(1, 1)),
        ),
    ),
    Trace(  # 11
        "a clock set back and forth refills nothing",
        ("juju/ratelimit#26",),
        {"g": both(10, 10, 10, SECOND)},
        (
            Step(0, "take", {"tokens": 10, "requests": 10}, True),
            Step(-8 * HOUR, "take", {}, Refused("requests")),
            Step(99 * MILLISECOND, "take", {}, Refused("requests")),
            Step(99 * MILLISECOND, "peek", {}, Left(requests=0, tokens=0)),
            Step(100 * MILLISECOND, "take", {}, True),
        ),
    ),
    Trace(  # 11
        "what was lived through behind does not pass again when the clock is set right",
        ("juju/ratelimit#26",),
        {"g": both(10, 10, 10, SECOND)},
        (
            Step(0, "take", {"tokens": 10, "requests": 10}, True),
            Step(-8 * HOUR, "take", {"tokens": 0}, Refused("requests")),
            Step(900 * MILLISECOND - 8 * HOUR, "take", {"requests": 9}, True),
            Step(950 * MILLISECOND, "take", {}, Refused("requests", wait_ns=50 * MILLISECOND)),
            Step(0, "retry", {}, True),
            Step(0, "peek", {}, Left(requests=0)),
        ),
    ),
    Trace(  # 13
        "sleeping takers get the rate and no more",
        ("redis-cell#13",),
        {"g": requests(100, 10)},
        (
            Step(
                tuple(range(0, 10 * SECOND + 1, 7 * MILLISECOND)),
                "take",
                {},
                Counted(1_000, 1_010),
            ),
        ),
    ),
    Trace(  # 14
        "one more than the burst is refused",
        ("redis-cell#50",),
        {"g": requests(6_000, 6_000)},
        (
            Step((0,) * 6_000, "take", {}, True),
            Step(0, "take", {}, Refused("requests", "g", False)),
        ),
    ),
    Trace(  # 15
        "waiting exactly as told is enough",
        ("redis-cell#56", "flask-limiter#62", "dragonfly#8288"),
        {"g": Quota(rate=3, burst=4, tokens=100, window_ns=7 * SECOND)},
        (
            Step(0, "take", {"tokens": 70}, True),
            Step(0, "take", {"tokens": 20}, True),
            Step(0, "take", {"tokens": 30}, Refused("tokens", "g", False)),
            Step(0, "retry", {}, True),
            Step(0, "take", {"tokens": 100}, Refused("tokens", "g", False)),
            Step(0, "retry", {}, True),
            Step(0, "take", {"tokens": 1}, Refused("tokens", "g", False)),
            Step(0, "retry", {}, True),
            Step(0, "take", {"tokens": 0, "requests": 3}, True),
            Step(0, "take", {"tokens": 0, "requests": 4}, Refused("requests", "g", False)),
            Step(0, "retry", {}, True),
        ),
    ),
    Trace(  # 17
        "the whole capacity is granted in time and one more never, in tokens",
        ("redis#14826",),
        {"g": tokens(10, SECOND)},
        (
            Step(0, "take", {"tokens": 10}, True),
            Step(0, "take", {"tokens": 11}, Refused("tokens", "g", True, 0)),
            Step(0, "take", {"tokens": 10}, Refused("tokens", "g", False)),
            Step(0, "retry", {}, True),
        ),
    ),
    Trace(  # 17
        "the whole capacity is granted in time and one more never, in requests",
        ("redis#14826",),
        {"g": requests(10, 10)},
        (
            Step(0, "take", {"requests": 10}, True),
            Step(0, "take", {"requests": 11}, Refused("requests", "g", True, 0)),
            Step(0, "take", {"requests": 10}, Refused("requests", "g", False, SECOND)),
            Step(0, "retry", {}, True),
        ),
    ),
    Trace(  # 17
        "the whole capacity is granted to the only lease and one more never, in bytes",
        ("redis#14826",),
        {"g": Quota(kibibytes=10)},
        (
            Step(0, "reserve", {"kibibytes": 10, "lease": "a"}, True),
            Step(0, "reserve", {"kibibytes": 11}, Refused("bytes", "g", True, 0)),
            Step(0, "reserve", {"kibibytes": 10}, Refused("bytes", "g", False, 0)),
            Step(0, "settle", {"lease": "a", "actual": 0}, True),
            Step(0, "reserve", {"kibibytes": 10, "lease": "b"}, True),
        ),
    ),
    Trace(  # 18
        "a rate above the clock's resolution still refuses",
        ("governor#203", "beryl#434"),
        {"g": requests(1_000_000_001, 1)},
        (
            Step(0, "take", {}, True),
            Step(0, "take", {}, Refused("requests", "g", False, 1)),
            Step(0, "retry", {}, True),
        ),
    ),
)

CONTRACT = (
    Trace(  # 20
        "a rate of zero refuses always",
        ("Sentinel#461", "crate ratelimit"),
        {"g": requests(0, 5)},
        (
            *(
                Step(at, "reserve", {}, Refused("requests", "g", True, 0))
                for at in (-23 * HOUR, 0, HOUR, 87_600 * HOUR)
            ),
            Step(87_600 * HOUR, "peek", {}, Left(requests=0)),
        ),
    ),
    Trace(  # 21
        "everything but a lease refuses",
        ("librefang#2413",),
        {"g": requests(1, 1)},
        (
            Step(0, "reserve", {"lease": "a"}, True),
            Step(0, "reserve", {}, Refused("requests", "g", False)),
            Step(0, "reserve", {"requests": 2}, Refused("requests", "g", True)),
            Step(0, "take", {}, Refused("requests", "g", False)),
            Step(0, "take", {"requests": 2}, Refused("requests", "g", True)),
            Step(0, "reserve", {"requests": 0}, ValueError),
            Step(0, "reserve", {"tokens": 1, "prompt": 2}, ValueError),
        ),
    ),
    Trace(  # 25
        "keys that are forgotten around a hot one do not reset it",
        ("lemmy#4560",),
        {"hot": both(5, 5, window_ns=HOUR)}
        | {f"cold{number}": requests(1_000, 1) for number in range(500)},
        tuple(
            step
            for number in range(500)
            for step in (
                Step(
                    number * MILLISECOND,
                    "take",
                    {"only": ("hot",), "tokens": 1},
                    True if number < 5 else Refused(scope="hot"),
                ),
                Step(number * MILLISECOND, "take", {"only": (f"cold{number}",)}, True),
            )
        ),
    ),
)

REPORTS = ACCOUNTING + TIME + CONTRACT
