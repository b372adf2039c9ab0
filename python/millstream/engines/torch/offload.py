"""Carries sampled ids from the device to the host without stopping the device.

Four pinned slots on the host, two alternating buffers on the device, one side stream. The event
that the host waits for sleeps instead of spinning (``torch.cuda.Event(blocking=True)``; the
generic ``torch.Event`` ignores the flag on CUDA) and is fresh for each step, because reused
events raced elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

HOST_SLOTS = 4


class Handle:
    """Ids of one step on their way; see ``millstream.engines.torch.batch.StepHandle``."""

    def __init__(
        self, slots: list[int], buffer: torch.Tensor, wait: Callable[[], None] | None
    ) -> None:
        self.slots = slots
        self._buffer: torch.Tensor | None = buffer
        self._wait = wait
        self._ids: list[int] | None = None

    def ids(self) -> list[int]:
        """Sampled ids; raises ``RuntimeError`` when asked after the buffer was reused."""
        if self._ids is None:
            if self._buffer is None:
                raise RuntimeError(f"ids() came more than {HOST_SLOTS - 1} steps late")
            if self._wait is not None:
                self._wait()
            self._ids = self._buffer.tolist()
        return self._ids

    def expire(self) -> None:
        """The buffer is about to be overwritten."""
        self._buffer = None


class Offload(Protocol):
    """The way of ids from device to host."""

    def send(self, ids: torch.Tensor, slots: list[int]) -> Handle:
        """Start copying ``ids``; they may be overwritten on the device as soon as this returns."""


class _HostSlots:
    """Host buffers in rotation; the handle that held a buffer before expires."""

    def __init__(self, max_batch: int, *, pinned: bool) -> None:
        self._buffers = [
            torch.zeros(max_batch, dtype=torch.int64, pin_memory=pinned) for _ in range(HOST_SLOTS)
        ]
        self._holders: list[Handle | None] = [None] * HOST_SLOTS
        self._next = 0

    def take(self, count: int) -> torch.Tensor:
        holder = self._holders[self._next]
        if holder is not None:
            holder.expire()
        return self._buffers[self._next][:count]

    def hold(self, handle: Handle) -> Handle:
        self._holders[self._next] = handle
        self._next = (self._next + 1) % HOST_SLOTS
        return handle


class CpuOffload:
    """The twin without a device: the same rotation and the same limits, a plain copy."""

    def __init__(self, max_batch: int) -> None:
        self._host = _HostSlots(max_batch, pinned=False)

    def send(self, ids: torch.Tensor, slots: list[int]) -> Handle:
        """Copy ``ids`` into the next host slot."""
        target = self._host.take(len(slots))
        target.copy_(ids)
        return self._host.hold(Handle(slots, target, None))


class CudaOffload:
    """A side stream and pinned memory; needs a CUDA device."""

    def __init__(self, max_batch: int, device: torch.device) -> None:
        self._host = _HostSlots(max_batch, pinned=True)
        self._side: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._device_buffers = [
            torch.zeros(max_batch, dtype=torch.int64, device=device) for _ in range(2)
        ]
        self._copied: list[torch.cuda.Event | None] = [None, None]
        self._turn = 0

    def send(self, ids: torch.Tensor, slots: list[int]) -> Handle:
        """Start the copy of ``ids`` on the side stream."""
        compute = torch.cuda.current_stream()
        turn, self._turn = self._turn, 1 - self._turn
        if (earlier := self._copied[turn]) is not None:
            compute.wait_event(earlier)
        source = self._device_buffers[turn][: len(slots)]
        source.copy_(ids)
        compute_done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        compute_done.record(compute)
        copied = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        target = self._host.take(len(slots))
        with torch.cuda.stream(self._side):
            self._side.wait_event(compute_done)
            target.copy_(source, non_blocking=True)
            copied.record(self._side)
        self._copied[turn] = copied
        return self._host.hold(Handle(slots, target, copied.synchronize))


def open_offload(max_batch: int, device: torch.device) -> Offload:
    """The offload for a device."""
    return CudaOffload(max_batch, device) if device.type == "cuda" else CpuOffload(max_batch)
