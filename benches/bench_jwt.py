"""Checking a JSON Web Token with 4 KiB of claims, beside PyJWT; and valid tokens under a flood.

``python -m benches.bench_jwt`` prints the tables and keeps them in ``benches/results/jwt.md``;
``pytest benches/bench_jwt.py --benchmark-enable`` runs the same checks under pytest-benchmark.
Both sides end with the same five values: subject, tenant, role, scopes and end.
"""

from __future__ import annotations

import base64
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median, quantiles
from typing import Any

import jwt
import pytest

from benches.heap import count, heap_of
from benches.table import Table
from benches.turns import COLUMNS, Cost, add_rows, measure
from millstream._core import JwtError, JwtVerifier
from tests.reference.jwt_broken import broken_tokens
from tests.reference.jwt_tokens import (
    CLAIMS,
    EVERY,
    NOW,
    PUBLIC,
    SECRET,
    key_set,
    private_key,
    public_jwk,
    signed,
)

PACKAGES = ("pyjwt", "cryptography")
PAYLOAD_BYTES = 4096
ROUNDS = 40
CALLS = 50
FLOOD = 100_000
# PyJWT looks at the real clock.
END = int(time.time()) + 86_400
ISSUED: dict[str, Any] = {"issuer": CLAIMS["iss"], "audience": CLAIMS["aud"]}

Check = Callable[[], object]


def claims_of_size(size: int) -> dict[str, Any]:
    """The claims that are read among those that identity providers add, in ``size`` bytes."""
    claims: dict[str, Any] = {
        "jti": "5f0c2b9e-7a41-4a54-9d43-3f0f4a5a2c11",
        "email": "user@acme.example",
        "email_verified": True,
        "address": {"locality": "Zürich", "country": "CH", "geo": [47.3769, 8.5417]},
        **CLAIMS,
        "exp": END,
        "groups": [],
        "permissions": {},
    }
    number = 0
    while len(json.dumps(claims, separators=(",", ":"))) < size:
        claims["groups"].append(f"/acme/department-{number}/team-{number * 7}")
        claims["permissions"][f"project-{number}"] = {"read": True, "write": False, "level": number}
        number += 1
    return claims


def ours(algorithm: str) -> Check:
    """A verifier as the server has it; it finds the key by its name."""
    verifier = JwtVerifier(algorithms=[algorithm], **ISSUED)
    if algorithm == "HS256":
        verifier.replace_secret(SECRET)
    else:
        verifier.replace_keys(key_set(public_jwk(algorithm)))
    token, now = signed(algorithm, claims_of_size(PAYLOAD_BYTES)), END - 60

    def check() -> object:
        found = verifier.verify(token, now)
        return found.subject, found.tenant, found.role, found.scopes, found.expires_at

    return check


def pyjwt(algorithm: str, *, signature: bool = True) -> Check:
    """PyJWT's decode, which builds all claims with `json.loads`; its key is at hand."""
    token = signed(algorithm, claims_of_size(PAYLOAD_BYTES))
    private = private_key(algorithm)
    key = SECRET if algorithm == "HS256" else private.public_key()
    options: Any = {"require": ["exp", "sub"], "verify_signature": signature}
    if not signature:
        options.update(dict.fromkeys(("verify_exp", "verify_iss", "verify_aud"), True))

    def check() -> object:
        found = jwt.decode(token, key, algorithms=[algorithm], options=options, **ISSUED)
        scopes = tuple(found["scope"].split())
        return found["sub"], found["tenant"], found["role"], scopes, float(found["exp"])

    return check


def built(algorithm: str) -> Check:
    """The least that Python can do to have the claims: nothing is checked at all."""
    token = signed(algorithm, claims_of_size(PAYLOAD_BYTES))

    def check() -> object:
        payload = token.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        scopes = tuple(found["scope"].split())
        return found["sub"], found["tenant"], found["role"], scopes, float(found["exp"])

    return check


OURS = "millstream"
PEER = "PyJWT"
CLAIMS_ALONE = "claims alone"
BUILT = "b64decode and json.loads, nothing checked"
CASES: dict[str, dict[str, Callable[[], Check]]] = {
    **{
        algorithm: {OURS: partial(ours, algorithm), PEER: partial(pyjwt, algorithm)}
        for algorithm in EVERY
    },
    CLAIMS_ALONE: {
        f"{OURS}, its HS256 included": partial(ours, "HS256"),
        f"{PEER}, no signature": partial(pyjwt, "HS256", signature=False),
        BUILT: partial(built, "HS256"),
    },
}


def speeds() -> Table:
    """The table of times."""
    table = Table("jwt", f"JSON Web Tokens with {PAYLOAD_BYTES // 1024} KiB of claims", COLUMNS)
    costs = {}
    for group, makers in CASES.items():
        checks = {name: make() for name, make in makers.items()}
        assert len({check() for check in checks.values()}) == 1
        costs[group] = measure(checks, rounds=ROUNDS, calls=CALLS, events=1)
        add_rows(table, group, costs[group])
    table.note("Ratios are to Millstream: how many times as long the others take")
    table.note(
        "Issuer, audience, end and signature are checked by both; PyJWT is handed its key, ours"
        " finds it by the token's `kid`. PyJWT's signatures are OpenSSL's, ours AWS-LC's"
    )
    table.note(
        "PyJWT 2.15 looks at every character of the token in Python before it decodes it, which is"
        " most of its time. With no more than the last row and its signatures it would still take"
        f" {leanest(costs)} times our CPU time"
    )
    table.note(f"Of our own time signatures take {signature_shares(costs)}")
    table.note(f"Medians of {ROUNDS} turns of {CALLS} checks; p99 is that of the turns' means")
    return table


Costs = dict[str, dict[str, Cost]]


def leanest(costs: Costs) -> str:
    """A bound: the claims built and nothing else, and what PyJWT's signature adds to HS256."""
    least = costs[CLAIMS_ALONE][BUILT].cpu - costs["HS256"][PEER].cpu
    ratios = [(least + costs[name][PEER].cpu) / costs[name][OURS].cpu for name in EVERY]
    return ", ".join(f"{ratio:.1f} ({name})" for name, ratio in zip(EVERY, ratios, strict=True))


def signature_shares(costs: Costs) -> str:
    """What is more than HS256 needs, whose signature is next to nothing."""
    base = costs["HS256"][OURS].cpu
    shares = [1 - base / costs[name][OURS].cpu for name in PUBLIC]
    return ", ".join(f"{share:.0%} ({name})" for name, share in zip(PUBLIC, shares, strict=True))


def memory() -> Table:
    """The table of allocations, one fresh process each."""
    columns = ("case", "allocated KiB", "peak KiB", "kept KiB", "allocations", "peak ratio")
    table = Table("jwt", "Memory of one check", columns)
    for algorithm in EVERY:
        base = None
        for name in (OURS, PEER):
            heap = heap_of(["-m", "benches.bench_jwt", algorithm, name, "count"])
            base = base or heap
            table.row(
                f"{algorithm}: {name}",
                *(f"{size / 1024:.1f}" for size in (heap.allocated, heap.peak, heap.kept)),
                str(heap.allocations),
                f"{heap.peak / base.peak:.1f}",
            )
    table.note(
        "Every malloc of one warm call in a process of its own with PYTHONMALLOC=malloc, counted by"
        " a preloaded library: Python's objects, Rust's, OpenSSL's and AWS-LC's alike"
    )
    table.note("Kept is what is held when the call has returned its five values")
    return table


def timed(check: Check, checks: int, between: Callable[[], None]) -> tuple[float, float]:
    """Median and 99th percentile of single checks in microseconds, with something in between."""
    clock, spent = time.perf_counter_ns, []
    for _ in range(checks):
        between()
        start = clock()
        check()
        spent.append(clock() - start)
    return median(spent) / 1000, quantiles(spent, n=100)[-1] / 1000


class Flood:
    """Broken tokens of every kind, one after the other."""

    def __init__(self, verifier: JwtVerifier) -> None:
        rng = random.Random(5)
        tokens = [token for _ in range(20) for _, token in broken_tokens(rng)]
        rng.shuffle(tokens)
        self._tokens = tokens
        self._verifier = verifier
        self.pushed = 0

    def push(self, tokens: int) -> None:
        """Have so many refused."""
        for _ in range(tokens):
            token = self._tokens[self.pushed % len(self._tokens)]
            self.pushed += 1
            try:
                self._verifier.verify(token, NOW)
            except JwtError:
                continue
            raise AssertionError("a broken token was accepted")

    @contextmanager
    def in_a_thread(self) -> Iterator[None]:
        """Broken tokens as fast as another thread can push them."""
        stop = threading.Event()

        def run() -> None:
            while not stop.is_set():
                self.push(10)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def flood() -> Table:
    """The table of valid tokens' times before, among and beside broken ones."""
    verifier = JwtVerifier(algorithms=["RS256"], **ISSUED)
    verifier.replace_keys(key_set(public_jwk("RS256")))
    valid = signed("RS256")
    broken = Flood(verifier)

    def check() -> object:
        return verifier.verify(valid, NOW)

    columns = ("valid RS256 tokens", "median µs", "p99 µs", "broken tokens meanwhile")
    table = Table("jwt", "Valid tokens while broken ones come", columns)
    checks = FLOOD // 10
    table.row("before", *shown(timed(check, checks, lambda: None)), "0")
    start = time.process_time()
    among = timed(check, checks, lambda: broken.push(10))
    cost = (time.process_time() - start) / (broken.pushed + checks) * 1e6
    table.row("each after ten broken ones", *shown(among), f"{broken.pushed:,}")
    pushed = broken.pushed
    with broken.in_a_thread():
        beside = timed(check, checks, lambda: None)
    table.row("beside a thread that pushes them", *shown(beside), f"{broken.pushed - pushed:,}")
    table.row("after", *shown(timed(check, checks, lambda: None)), "0")
    table.note(
        f"17 kinds of broken tokens, from random bytes to a stranger's signature; {cost:.1f} µs of"
        " CPU a token on average in the second row, the raised JwtError and the loop included"
    )
    table.note(
        "A thread beside it shares the interpreter: the third row waits for the GIL, not for a lock"
    )
    return table


def shown(times: tuple[float, float]) -> tuple[str, str]:
    return f"{times[0]:.1f}", f"{times[1]:.1f}"


@pytest.mark.parametrize("group", CASES)
@pytest.mark.parametrize("side", [0, -1], ids=["ours", "theirs"])
def test_check(benchmark: Any, group: str, side: int) -> None:
    make = list(CASES[group].values())[side]
    benchmark(make())


def main() -> None:
    if sys.argv[-1] == "count":
        count(CASES[sys.argv[1]][sys.argv[2]]())
        return
    speeds().write(PACKAGES, below=[memory(), flood()])


if __name__ == "__main__":
    main()
