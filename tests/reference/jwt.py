"""The twin of ``_core.JwtVerifier`` over PyJWT: the whole payload is built, then looked at."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

import jwt
from jwt.exceptions import PyJWTError

KINDS = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}
LATEST = 253_402_300_799
MAX_BYTES = 16 * 1024


class Refused(Exception):
    """A token that is refused, with the reason as its only argument."""


@dataclass(frozen=True, slots=True)
class Claims:
    """See the stub of ``_core.JwtClaims``."""

    subject: str
    tenant: str | None
    role: str | None
    scopes: tuple[str, ...] | None
    expires_at: float


class Missing:
    """No value, which differs from null."""


class Other:
    """A value where an object should be."""


class Verifier:
    """See the stub of ``_core.JwtVerifier``."""

    def __init__(
        self,
        *,
        algorithms: tuple[str, ...],
        issuer: str | None = None,
        audience: str | None = None,
        leeway_seconds: int = 30,
        claims: tuple[str, str, str] = ("tenant", "role", "scope"),
    ) -> None:
        self.algorithms = algorithms
        self.issuer = issuer
        self.audience = audience
        self.leeway = leeway_seconds
        self.tenant, self.role, self.scopes = claims
        self.paths = [["exp"], ["nbf"], ["iat"], ["sub"], ["iss"], ["aud"]]
        self.paths += [parts(name) for name in claims]
        self.keys: list[tuple[str | None, str, Any]] = []
        self.secret: bytes | None = None

    def replace_secret(self, secret: bytes) -> None:
        self.secret = secret

    def replace_keys(self, jwks: bytes) -> None:
        self.keys = []
        for key in json.loads(jwks)["keys"]:
            algorithm = KINDS.get((key.get("kty"), key.get("crv")))
            if algorithm in self.algorithms and usable(key, algorithm):
                self.keys.append((key.get("kid"), algorithm, jwt.PyJWK(key, algorithm).key))

    def verify(self, token: str | bytes, now: int) -> Claims:
        header, payload, signature = split(token)
        fields = load(text_of(header), [["alg"], ["kid"], ["crit"]])
        if "crit" in fields or not isinstance(fields.get("alg"), str):
            raise Refused("malformed")
        if not isinstance(fields.get("kid", ""), str):
            raise Refused("malformed")
        signed = f"{header}.{payload}".encode()
        self.check(fields["alg"], fields.get("kid"), signed, signature)
        return self.read(load(text_of(payload), self.paths), now)

    def check(self, algorithm: str, kid: str | None, signed: bytes, signature: str) -> None:
        if algorithm not in self.algorithms:
            raise Refused("algorithm")
        signer = jwt.PyJWS().get_algorithm_by_name(algorithm)
        for key in self.candidates(algorithm, kid):
            if signer.verify(signed, key, b64decode(signature)):
                return
        raise Refused("signature")

    def candidates(self, algorithm: str, kid: str | None) -> list[Any]:
        if self.secret is not None:
            return [self.secret]
        named = [entry for entry in self.keys if kid is None or entry[0] == kid]
        fitting = [entry[2] for entry in named if entry[1] == algorithm]
        if not named or (kid is None and len(fitting) != 1):
            raise Refused("unknown_key")
        if not fitting:
            raise Refused("algorithm")
        return fitting

    def read(self, claims: dict[str, Any], now: int) -> Claims:
        end, start, issued = (date(claims.get(name, Missing)) for name in ("exp", "nbf", "iat"))
        if end is None:
            raise Refused("claim")
        if end <= now - self.leeway:
            raise Refused("expired")
        if max(start or 0, issued or 0) > now + self.leeway:
            raise Refused("not_yet_valid")
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise Refused("issuer")
        if self.audience is not None and self.audience not in audiences(claims.get("aud")):
            raise Refused("audience")
        subject = text(claims.get("sub", Missing))
        if subject is None:
            raise Refused("claim")
        tenant, role = text(at(claims, self.tenant)), text(at(claims, self.role))
        return Claims(subject, tenant, role, scopes(at(claims, self.scopes)), float(end))


def usable(key: dict[str, Any], algorithm: str) -> bool:
    if key.get("alg", algorithm) != algorithm or key.get("use", "sig") != "sig":
        return False
    if "verify" not in key.get("key_ops", ["verify"]):
        return False
    try:
        made = jwt.PyJWK(key, algorithm).key
    except (PyJWTError, ValueError):
        return False
    return algorithm != "RS256" or 2048 <= made.key_size <= 8192


def parts(name: str) -> list[str]:
    return [name] if "://" in name else name.split(".")


def split(token: str | bytes) -> tuple[str, str, str]:
    try:
        content = token.encode() if isinstance(token, str) else token
        pieces = content.decode().split(".")
    except UnicodeError:
        raise Refused("malformed") from None
    if len(content) > MAX_BYTES or len(pieces) != 3:
        raise Refused("malformed")
    return pieces[0], pieces[1], pieces[2]


def text_of(part: str) -> str:
    try:
        return b64decode(part).decode()
    except UnicodeError:
        raise Refused("malformed") from None


def b64decode(part: str) -> bytes:
    if not re.fullmatch(r"[A-Za-z0-9_-]*", part) or len(part) % 4 == 1:
        raise Refused("malformed")
    content = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if base64.urlsafe_b64encode(content).decode().rstrip("=") != part:
        raise Refused("malformed")
    return content


class Pairs(list[tuple[str, Any]]):
    """An object before it is known which of its members may stand twice."""


def load(content: str, paths: list[list[str]]) -> dict[str, Any]:
    """The object, in which no member on a path may stand twice."""
    try:
        found = json.loads(content, object_pairs_hook=Pairs, parse_constant=no_json)
    except (ValueError, RecursionError):
        raise Refused("malformed") from None
    if not isinstance(found, Pairs):
        raise Refused("malformed")
    return merged(found, paths)


def no_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def merged(pairs: Pairs, paths: list[list[str]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in pairs:
        below = [path[1:] for path in paths if path[0] == name]
        if not below:
            continue
        if name in result:
            raise Refused("malformed")
        inner = [path for path in below if path]
        if not inner:
            result[name] = readable(value)
        else:
            result[name] = merged(value, inner) if isinstance(value, Pairs) else Other
    return result


def readable(value: Any) -> Any:
    """The value, if Rust could build it: floats are finite, texts have no lone surrogates."""
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise Refused("malformed")
    try:
        for one in value if isinstance(value, list) and not isinstance(value, Pairs) else [value]:
            if isinstance(one, str):
                one.encode()
    except UnicodeError:
        raise Refused("malformed") from None
    return dict(value) if isinstance(value, Pairs) else value


def at(claims: dict[str, Any], name: str) -> Any:
    value: Any = claims
    for part in parts(name):
        if value is Other:
            return Other
        if value is not Missing:
            value = value.get(part, Missing)
    return value


def date(value: Any) -> float | None:
    if value is Missing:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LATEST:
        raise Refused("claim")
    return value


def is_name(value: Any) -> bool:
    controls = r"[\x00-\x1f\x7f-\x9f]"
    return isinstance(value, str) and value != "" and not re.search(controls, value)


def text(value: Any) -> str | None:
    if value is Missing:
        return None
    if not is_name(value):
        raise Refused("claim")
    return str(value)


def audiences(value: Any) -> list[str]:
    many = value if isinstance(value, list) else [value]
    return many if all(isinstance(one, str) for one in many) else []


def scopes(value: Any) -> tuple[str, ...] | None:
    if value is Missing:
        return None
    many = [one for one in value.split(" ") if one] if isinstance(value, str) else value
    if not isinstance(many, list) or not all(is_name(one) and " " not in one for one in many):
        raise Refused("claim")
    return tuple(many)
