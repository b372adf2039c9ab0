"""The tokenizer and chat template as the model's file means them."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from millstream.engines.torch.models import resolve_model
from millstream.engines.torch.tokenizer import Tokenizer
from millstream.errors import ConfigError, InvalidParameter


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(resolve_model("smollm2-135m-instruct").path)


def test_digits_are_split_before_spaces_are_joined(tokenizer: Tokenizer) -> None:
    # llama.cpp#8609: transformers falls back to GPT-2's pattern here and makes four tokens.
    assert len(tokenizer.encode("x  1")) == 3
    assert len(tokenizer.encode("2026")) == 4


def test_special_tokens_are_one_token_each(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("<|im_start|>") == [1]
    assert tokenizer.eos_ids == {2}
    assert {0, 1, 2} <= tokenizer.special_ids
    assert tokenizer.context_length == 8192


def test_a_chat_is_the_text_of_the_template(tokenizer: Tokenizer) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    text = (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert tokenizer.render_chat(messages) == text
    assert tokenizer.encode_chat(messages) == tokenizer.encode(text)
    assert tokenizer.render_chat(messages, add_generation_prompt=False) == text[:-22]


@given(text=st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_bytes_of_the_tokens_are_the_bytes_of_the_text(text: str) -> None:
    loaded = _loaded()
    table = _table()
    # The vocabulary has no token for some control characters; the model's own tokenizer drops them.
    assume(set(text.encode()) <= _single_bytes())
    assert b"".join(table[token] for token in loaded.encode(text)) == text.encode()


def test_every_token_has_its_bytes(tokenizer: Tokenizer) -> None:
    table = tokenizer.vocabulary_bytes()
    assert len(table) == 49152
    for token in (*range(0, 49152, 997), 2):
        assert table[token]
        # What decodes alone to whole characters is exactly its bytes.
        text = tokenizer.decode([token])
        if text and "�" not in text:
            assert table[token].decode() == text


def test_loading_needs_neither_torch_nor_transformers() -> None:
    script = (
        "import sys\n"
        "from millstream.engines.torch.models import resolve_model\n"
        "from millstream.engines.torch.tokenizer import Tokenizer\n"
        "Tokenizer.load(resolve_model('smollm2-135m-instruct').path).encode_chat([])\n"
        "print({'torch', 'transformers', 'numpy'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: index for index, letter in enumerate(alphabet)}
    vocabulary["hi"] = len(vocabulary)
    backend = Backend(models.BPE(vocab=vocabulary, merges=[("h", "i")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<s>", "</s>"])
    backend.enable_truncation(2)
    backend.enable_padding(length=4)
    backend.save(str(tmp_path / "tokenizer.json"))
    config = {"max_position_embeddings": 64, "eos_token_id": [258, 9]}
    settings_of = {"bos_token": {"content": "<s>"}, "chat_template": "{{ bos_token }}{{ 1 + 1 }}"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings_of))
    return tmp_path


def test_a_directory_is_read_without_its_truncation_and_padding(directory: Path) -> None:
    tokenizer = Tokenizer.load(directory)
    assert len(tokenizer.encode("hihihi")) == 3
    assert tokenizer.decode(tokenizer.encode("hihihi")) == "hihihi"
    assert tokenizer.eos_ids == {258, 9}
    assert tokenizer.context_length == 64
    assert tokenizer.render_chat([]) == "<s>2"


def test_the_template_file_wins_over_the_setting(directory: Path) -> None:
    (directory / "chat_template.jinja").write_text("{{ messages[0].content }}!")
    assert Tokenizer.load(directory).render_chat([{"content": "yes"}]) == "yes!"


def test_a_model_without_template_says_so(directory: Path) -> None:
    (directory / "tokenizer_config.json").unlink()
    with pytest.raises(ConfigError, match="no chat template"):
        Tokenizer.load(directory).render_chat([])


def test_a_template_that_refuses_is_the_clients_mistake(directory: Path) -> None:
    (directory / "chat_template.jinja").write_text("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(InvalidParameter, match="roles must alternate"):
        Tokenizer.load(directory).render_chat([])


def test_a_directory_without_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        Tokenizer.load(tmp_path)


@cache
def _loaded() -> Tokenizer:
    return Tokenizer.load(resolve_model("smollm2-135m-instruct").path)


@cache
def _table() -> list[bytes]:
    return _loaded().vocabulary_bytes()


@cache
def _single_bytes() -> set[int]:
    return {entry[0] for entry in _table() if len(entry) == 1}
