"""Served, ignored, refused by name."""

from __future__ import annotations

import pytest

from millstream.api.parameters import HARMLESS, NEUTRAL, refuse_unsupported
from millstream.errors import UnsupportedParameter

KNOWN = ("model", "temperature", "max_tokens")


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_harmless_parameters_are_ignored(name: str) -> None:
    refuse_unsupported({name: {"any": "thing"}}, KNOWN)


def test_only_the_start_of_a_long_name_is_compared_and_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A name of 3 MB held the loop for 0.9 s while it was compared with every known one.
    compared: list[str] = []

    def get_close_matches(name: str, *_rest: object, **_options: object) -> list[str]:
        compared.append(name)
        return []

    monkeypatch.setattr("millstream.api.parameters.get_close_matches", get_close_matches)
    with pytest.raises(UnsupportedParameter) as refused:
        refuse_unsupported({"k" * 3_000_000: 1}, KNOWN)
    assert refused.value.param == "k" * 200
    assert compared == ["k" * 200]


@pytest.mark.parametrize("name", [*sorted(NEUTRAL), "something_new"])
def test_null_asks_for_nothing(name: str) -> None:
    refuse_unsupported({name: None}, KNOWN)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in NEUTRAL.items() for value in values]
)
def test_a_neutral_value_asks_for_nothing(name: str, value: object) -> None:
    refuse_unsupported({name: value}, KNOWN)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tools", [{"type": "function"}]),
        ("logprobs", True),
        ("logprobs", 1),
        ("response_format", {"type": "json_object"}),
        ("logit_bias", {"50256": -100}),
        ("best_of", True),
        ("echo", 0),
    ],
)
def test_a_value_that_changes_the_answer_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(UnsupportedParameter, match=f"'{name}'") as refused:
        refuse_unsupported({name: value}, KNOWN)
    assert refused.value.param == name


def test_an_unknown_parameter_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(UnsupportedParameter, match=r"'temprature'.*Did you mean 'temperature'"):
        refuse_unsupported({"temprature": 1}, KNOWN)


def test_a_very_long_name_is_not_echoed_whole() -> None:
    with pytest.raises(UnsupportedParameter) as refused:
        refuse_unsupported({"x" * 10_000: 1}, KNOWN)
    assert len(str(refused.value)) < 500
