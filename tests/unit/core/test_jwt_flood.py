"""A hundred thousand broken tokens: each refused, the valid ones between them accepted."""

from __future__ import annotations

import gc
import json
import random
from collections import Counter

from millstream._core import JwtError, JwtVerifier
from tests.reference.jwt_tokens import (
    CLAIMS,
    NOW,
    compact,
    encoded,
    key_set,
    private_key,
    public_jwk,
    signed,
)

BROKEN = 100_000
VALID_EVERY = 10
MOST_GROWTH_BYTES = 4 << 20
HEADER = json.dumps({"alg": "RS256", "kid": "k0"}).encode()
DEEP = b'{"a":' * 1500 + b"1" + b"}" * 1499
UNSIGNED = json.dumps({"alg": "none"}).encode()
PAYLOAD = json.dumps(dict(CLAIMS)).encode()


def resident_bytes() -> int:
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * 4096


def kinds(rng: random.Random) -> list[tuple[str, str]]:
    """Tokens with the reason for which each is refused; the signatures of most are checked."""
    valid = signed("RS256")
    header, payload, last = valid.split(".")
    stranger = private_key("RS256", 1)
    return [
        ("signature", f"{header}.{payload}.{encoded(rng.randbytes(256))}"),
        ("signature", f"{header}.{encoded(rng.randbytes(400))}.{last}"),
        ("signature", f"{header}.{payload}."),
        ("signature", compact(HEADER, PAYLOAD, "RS256", stranger)),
        ("malformed", compact(HEADER, DEEP, "RS256")),
        ("malformed", compact(HEADER, rng.randbytes(300), "RS256")),
        ("expired", signed("RS256", {**CLAIMS, "exp": NOW - 31})),
        ("not_yet_valid", signed("RS256", {**CLAIMS, "nbf": NOW + 31})),
        ("claim", signed("RS256", {**CLAIMS, "sub": ""})),
        ("unknown_key", signed("RS256", kid=rng.randbytes(9).hex())),
        ("algorithm", f"{encoded(UNSIGNED)}.{payload}."),
        ("malformed", valid[: rng.randrange(len(valid) - len(last) - 1)]),
        ("malformed", "A" * 16_385),
        ("malformed", f"{encoded(b'[' * 9000)}.{payload}.{last}"),
        ("malformed", f"{encoded(rng.randbytes(60))}.{payload}.{last}"),
        ("malformed", "." * rng.randrange(3, 5000)),
        ("malformed", f"{header}.{payload}.{last}é\ud800"),
    ]


def test_a_flood_of_broken_tokens_costs_neither_memory_nor_a_valid_one() -> None:
    verifier = JwtVerifier(algorithms=["RS256"], issuer=CLAIMS["iss"], audience=CLAIMS["aud"])
    verifier.replace_keys(key_set(public_jwk("RS256")))
    rng = random.Random(5)
    pool = [kind for _ in range(20) for kind in kinds(rng)]
    valid = [signed("RS256", {**CLAIMS, "sub": f"user-{number}"}) for number in range(20)]

    def push(count: int) -> tuple[Counter[str], Counter[str], int]:
        expected, found, accepted = Counter[str](), Counter[str](), 0
        for number in range(count):
            reason, token = pool[rng.randrange(len(pool))]
            expected[reason] += 1
            try:
                verifier.verify(token, NOW)
            except JwtError as refused:
                found[refused.reason] += 1
            if number % VALID_EVERY == 0:
                accepted += verifier.verify(valid[number % len(valid)], NOW).tenant == "acme"
        return expected, found, accepted

    push(BROKEN // 10)
    gc.collect()
    before = resident_bytes()
    expected, found, accepted = push(BROKEN)
    gc.collect()

    assert found == expected
    assert set(found) == {reason for reason, _ in pool}
    assert accepted == BROKEN // VALID_EVERY
    assert resident_bytes() - before < MOST_GROWTH_BYTES
