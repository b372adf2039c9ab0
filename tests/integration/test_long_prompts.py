"""Prompts whose length costs seconds: other threads run on, and no counted text is refused."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.engines.torch.models import resolve_model
from millstream.engines.torch.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(resolve_model("smollm2-135m-instruct").path)


def test_other_threads_run_while_a_long_text_is_tokenised(tokenizer: Tokenizer) -> None:
    # The worker's loop stood still for 31 s over 4 MiB of digits, in a thread or not.
    counts: list[int] = []
    text = "1" * 300_000
    thread = threading.Thread(target=lambda: counts.append(len(tokenizer.encode(text))))
    thread.start()
    turns = 0
    while thread.is_alive():
        time.sleep(0.001)
        turns += 1
    thread.join()
    assert counts == [len(text)]
    assert turns > 20


PRINTABLE = st.characters(codec="utf-8", min_codepoint=32, max_codepoint=0x2FFFF)


@settings(max_examples=200, deadline=None)
# SmolLM2 knows no token for some bytes of others: they vanish.
@given(text=st.text(PRINTABLE, max_size=300))
def test_no_text_is_longer_than_its_tokens_allow(tokenizer: Tokenizer, text: str) -> None:
    assert len(text) <= len(tokenizer.encode(text)) * tokenizer.longest_token


def test_the_longest_token_is_one_token(tokenizer: Tokenizer) -> None:
    longest = max(tokenizer.vocabulary_bytes(), key=len).decode()
    assert len(tokenizer.encode(longest)) == 1
    assert len(longest) == tokenizer.longest_token


@pytest.mark.parametrize("text", ["", "Grüße 🙂 12345", "<|im_end|>a", "\x00\ufffd \n\n\t"])
def test_ids_are_those_of_the_plain_call(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode(text) == tokenizer._backend.encode(text, add_special_tokens=True).ids
