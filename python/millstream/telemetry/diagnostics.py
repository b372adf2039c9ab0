"""Looks at this machine: what is installed, what it has, what may be missing."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from millstream import __version__

MEBIBYTE = 1 << 20
ENOUGH_MEMORY_BYTES = 1024 * MEBIBYTE
ENOUGH_SHARED_BYTES = 64 * MEBIBYTE
REQUIRED = ("fastapi", "granian", "msgspec", "prometheus-client", "pydantic", "uvloop")
TORCH = ("torch", "transformers", "tokenizers", "jinja2", "numpy")


class State(StrEnum):
    """What a check came to; a problem keeps the server from serving."""

    GOOD = "good"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, and what to do about it."""

    name: str
    state: State
    detail: str
    remedy: str = ""


def versions() -> Iterator[Check]:
    """What is installed, in which version."""
    yield Check("python", State.GOOD, f"{platform.python_version()} on {platform.platform()}")
    yield Check("millstream", State.GOOD, __version__)
    for name in REQUIRED:
        yield _installed(name, f"pip install {name}")
    for name in TORCH:
        yield _installed(name, 'pip install "millstream[torch]"')


def core() -> Check:
    """Whether the Rust core can be loaded."""
    try:
        module = importlib.import_module("millstream._core")
    except ImportError as error:
        return Check("rust core", State.PROBLEM, str(error), "make build, or reinstall the wheel")
    return Check("rust core", State.GOOD, str(module.__file__))


def torch_devices() -> Check:
    """What torch can compute on."""
    try:
        import torch
    except Exception as error:  # a broken torch fails in many ways, each of them is the finding
        return Check("torch devices", State.PROBLEM, f"torch cannot be imported: {error}")
    devices = [f"cpu ({torch.get_num_threads()} threads)"]
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            devices.append(f"cuda:{index} ({torch.cuda.get_device_name(index)})")
    return Check("torch devices", State.GOOD, ", ".join(devices))


def processors() -> Check:
    """How many cores this process may use."""
    return Check("processors", State.GOOD, f"{usable_processors()} usable")


def usable_processors() -> int:
    """Cores that this process may run on, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory(meminfo: Path = Path("/proc/meminfo")) -> Check:
    """How much memory is free."""
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return Check("memory", State.WARNING, f"unknown: {meminfo} cannot be read")
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    available = int(fields["MemAvailable"].split()[0]) * 1024
    state = State.GOOD if available >= ENOUGH_MEMORY_BYTES else State.WARNING
    return Check("memory", state, f"{available // MEBIBYTE} MiB available")


def shared_memory(mount: Path = Path("/dev/shm")) -> Check:  # noqa: S108 - looked at, not used
    """How much room there is for shared memory."""
    try:
        free = shutil.disk_usage(mount).free
    except OSError:
        return Check("shared memory", State.WARNING, f"{mount} does not exist")
    state = State.GOOD if free >= ENOUGH_SHARED_BYTES else State.WARNING
    remedy = "" if state is State.GOOD else "with Docker: --shm-size=256m"
    return Check("shared memory", state, f"{free // MEBIBYTE} MiB free in {mount}", remedy)


def descriptors() -> Check:
    """Whether the kernel has what the ring between engine and worker is made of."""
    name = "memfd, eventfd"
    try:
        memory_fd = os.memfd_create("millstream-doctor")
        os.close(memory_fd)
        os.close(os.eventfd(0))
    except (AttributeError, OSError) as error:
        return Check(name, State.WARNING, f"not available ({error}): a file and a pipe take over")
    return Check(name, State.GOOD, "available")


def _installed(name: str, remedy: str) -> Check:
    try:
        return Check(name, State.GOOD, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Check(name, State.PROBLEM, "not installed", remedy)
