"""Which parameters of OpenAI's API are served, ignored, or refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from millstream.errors import UnsupportedParameter

HARMLESS: frozenset[str] = frozenset(
    {
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)
"""Ignored whatever their value: they do not change the tokens of the answer."""

NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "audio": (),
    "best_of": (1,),
    "echo": (False,),
    "function_call": ("none",),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False, 0),
    "modalities": (["text"],),
    "prediction": (),
    "reasoning_effort": (),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "tool_choice": ("none",),
    "tools": ([],),
    "top_logprobs": (0,),
    "verbosity": ("medium",),
    "web_search_options": (),
}
"""Known and not supported: accepted only with a value that asks for nothing (or ``null``)."""


def refuse_unsupported(
    extra: Mapping[str, object] | None,
    known: Iterable[str],
    *,
    where: str = "",
    harmless: frozenset[str] = HARMLESS,
    neutral: Mapping[str, tuple[object, ...]] = NEUTRAL,
) -> None:
    """Raise `UnsupportedParameter` for the first parameter that would change the meaning.

    ``extra`` are the fields that the schema does not have, ``known`` those it has; ``where`` is
    what goes before their names, as in ``branches[0].``.
    """
    for name, value in (extra or {}).items():
        if value is None or name in harmless or _is_neutral(value, neutral.get(name, ())):
            continue
        shown = name[:200]
        if shown in neutral:
            explanation = f"The parameter '{where}{shown}' is not supported by this server."
        else:
            explanation = _unknown(shown, [*known, *neutral, *harmless], where)
        raise UnsupportedParameter(explanation, param=where + shown)


def _is_neutral(value: object, neutral: tuple[object, ...]) -> bool:
    return any(type(value) is type(other) and value == other for other in neutral)


def _unknown(name: str, known: Iterable[str], where: str) -> str:
    nearest = get_close_matches(name, known, n=1)
    hint = f" Did you mean '{where}{nearest[0]}'?" if nearest else ""
    return f"Unknown parameter '{where}{name}'.{hint}"
