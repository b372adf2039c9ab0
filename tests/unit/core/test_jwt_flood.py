"""A hundred thousand broken tokens: each refused, the valid ones between them accepted."""

from __future__ import annotations

import gc
import random
from collections import Counter

from millstream._core import JwtError, JwtVerifier
from tests.reference.jwt_broken import broken_tokens
from tests.reference.jwt_tokens import CLAIMS, NOW, key_set, public_jwk, signed

BROKEN = 100_000
VALID_EVERY = 10
# These tokens are 300 MB; the system may count in pages of 2 MiB.
MOST_GROWTH_BYTES = 12 << 20


def resident_bytes() -> int:
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * 4096


def test_a_flood_of_broken_tokens_costs_neither_memory_nor_a_valid_one() -> None:
    verifier = JwtVerifier(algorithms=["RS256"], issuer=CLAIMS["iss"], audience=CLAIMS["aud"])
    verifier.replace_keys(key_set(public_jwk("RS256")))
    rng = random.Random(5)
    pool = [kind for _ in range(20) for kind in broken_tokens(rng)]
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
