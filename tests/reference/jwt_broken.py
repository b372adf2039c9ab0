"""Tokens that must be refused, of every kind that an attacker or an accident makes."""

from __future__ import annotations

import json
import random

from tests.reference.jwt_tokens import CLAIMS, NOW, compact, encoded, private_key, signed

HEADER = json.dumps({"alg": "RS256", "kid": "k0"}).encode()
PAYLOAD = json.dumps(dict(CLAIMS)).encode()
DEEP = b'{"a":' * 1500 + b"1" + b"}" * 1499
UNSIGNED = json.dumps({"alg": "none"}).encode()


def broken_tokens(rng: random.Random) -> list[tuple[str, str]]:
    """Tokens of RS256 with the reason for which each is refused.

    Half of them get as far as their signature, and some beyond.
    """
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
