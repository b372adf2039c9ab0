"""Less instead of nothing, decided in the moment of the admission."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.admission.leases import Lease, Refusal
from millstream.admission.together import reserve_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from millstream.admission.base import Limiter
    from millstream.admission.book import LimitBook
    from millstream.admission.demand import Demand
    from millstream.admission.policies import TokenWindow


async def reserve_adapted(
    limiter: Limiter, book: LimitBook, demands: Sequence[Demand]
) -> list[Lease] | Refusal:
    """A lease for each demand, or a refusal: what may be less is cut to what is left by now.

    Those that draw on the same limit share it evenly. Where less is left than the least, the
    refusal says how long that has to wait. Raises what `Limiter.reserve` raises.
    """
    if all(demand.least_tokens is None for demand in demands):
        return await reserve_all(limiter, book, demands)
    # What no waiting could grant need not be asked for.
    asked = [demand.cut_to(_most(book, demand)) for demand in demands]
    reserved = await reserve_all(limiter, book, asked)
    if not isinstance(reserved, Refusal) or reserved.dimension != "tokens":
        return reserved
    cut = [demand.cut_to(await _share(limiter, book, demand, asked)) for demand in asked]
    return await reserve_all(limiter, book, cut)


def _most(book: LimitBook, demand: Demand) -> int:
    """What the tightest limit on tokens grants while nobody uses it."""
    limits = _limits(book, demand).values()
    return min((tokens.limit for tokens in limits), default=demand.tokens)


async def _share(limiter: Limiter, book: LimitBook, demand: Demand, demands: list[Demand]) -> int:
    """What is left in the tightest limit, by how many draw on a limit of this one."""
    tokens = (await limiter.peek(book.scopes(demand.tenant, demand.model))).tokens
    if tokens is None:
        return demand.tokens
    own = _limits(book, demand).keys()
    sharing = sum(not own.isdisjoint(_limits(book, each)) for each in demands)
    return tokens.remaining // max(sharing, 1)


def _limits(book: LimitBook, demand: Demand) -> dict[str, TokenWindow]:
    """By scope."""
    scopes = book.scopes(demand.tenant, demand.model)
    return {scope: limits.tokens for scope, limits in scopes if limits.tokens is not None}
