"""The Rust parser of TOML against `tomllib`: the same tree in the same order, or none."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream._core import parse_toml
from millstream.config.problems import bare_or_quoted, quoted

Tree = dict[str, object]

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
scalars = texts | numbers | st.booleans()
values = st.recursive(
    scalars,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(texts, below, max_size=3),
    max_leaves=8,
)
tables = st.recursive(
    st.dictionaries(texts, values, max_size=3),
    lambda below: st.dictionaries(texts, values | below, max_size=4),
    max_leaves=12,
)


def written(value: object) -> str:
    if isinstance(value, dict):
        pairs = (f"{bare_or_quoted(key)} = {written(below)}" for key, below in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else repr(value)


def document(tree: Tree, above: str = "") -> str:
    """With a header for some of the tables, and the others inline."""
    lines, below = [], []
    for number, (key, value) in enumerate(tree.items()):
        name = bare_or_quoted(key)
        if isinstance(value, dict) and number % 2:
            below.append(f"[{above}{name}]\n{document(value, f'{above}{name}.')}")
        else:
            lines.append(f"{name} = {written(value)}\n")
    return "".join(lines + below)


def exactly(value: object) -> str:
    """With the types of numbers and the order of keys, which ``==`` does not see."""
    return repr(value)


@given(tables)
def test_what_is_written_is_read_as_tomllib_reads_it(tree: Tree) -> None:
    text = document(tree)
    assert exactly(parse_toml(text)) == exactly(tomllib.loads(text))


pieces = st.sampled_from(
    [
        "a", "b", '"c"', ".", " = ", "1", "-0", "0x1F", "1_0", "1e3", "inf", "nan", "+2.5", "true",
        "'x'", '"y\\n"', '"""', "'''", "[", "]", "[[", "]]", "{", "}", ",", "\n", "\r\n", "#", "\\",
    ]
)  # fmt: skip


@given(st.lists(pieces, max_size=14).map("".join))
@example("a = '''x\r\ny'''")
@example("[a]\nb = 1\n[a]\nc = 2")
@example("[a.b]\n[a]\nc = 1")
@example("a.b = 1\n[a]\nc = 1")
@example("[[a]]\n[[a]]\nb = 1")
@example("a = 1e999")
def test_what_tomllib_takes_is_read_alike(text: str) -> None:
    try:
        expected = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # TOML 1.1 allows more than 1.0
    assert exactly(parse_toml(text)) == exactly(expected)


@pytest.mark.parametrize(
    "text",
    [
        "a = 1979-05-27",
        "a = 99999999999999999999",
        "a." * 100_000 + "a = 1",
        f"[{'a.' * 100_000}a]",
        "a = " + "[" * 100_000,
        "a = " + "{ a = " * 100_000,
        "\n".join(f"[{'.'.join(['a'] * depth)}]" for depth in range(1, 90)),
        "a = '\ud800'",
        "[a]\nb = 1\n[a]\nc = 2",
    ],
    ids=["date", "large", "dotted", "header", "array", "inline", "step", "surrogate", "twice"],
)
def test_what_is_rare_or_wrong_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not TOML|surrogates"):
        parse_toml(text)
