"""Ids on their way to the host: rotation of buffers, and what comes too late."""

from __future__ import annotations

import pytest
import torch

from millstream.engines.torch.offload import HOST_SLOTS, CpuOffload, CudaOffload, Offload

# `benches/gpu/run` checks the same on machines that have a device and no test suite.
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(str(request.param))


@pytest.fixture
def offload(device: torch.device) -> Offload:
    return CpuOffload(8) if device.type == "cpu" else CudaOffload(8, device)


def test_ids_arrive_although_their_tensor_is_overwritten(
    offload: Offload, device: torch.device
) -> None:
    ids = torch.tensor([5, 6, 7], device=device)
    handle = offload.send(ids, [2, 0, 1])
    ids.zero_()
    assert handle.slots == [2, 0, 1]
    assert handle.ids() == [5, 6, 7]


def test_several_steps_may_be_under_way(offload: Offload, device: torch.device) -> None:
    handles = [
        offload.send(torch.tensor([step, 10 * step], device=device), [0, 1])
        for step in range(HOST_SLOTS)
    ]
    assert [handle.ids() for handle in handles] == [[step, 10 * step] for step in range(4)]


def test_ids_that_were_read_stay(offload: Offload, device: torch.device) -> None:
    first = offload.send(torch.tensor([1], device=device), [0])
    assert first.ids() == [1]
    for step in range(2 * HOST_SLOTS):
        offload.send(torch.tensor([step], device=device), [0])
    assert first.ids() == [1]


def test_reading_after_the_buffer_was_reused_fails_instead_of_lying(
    offload: Offload, device: torch.device
) -> None:
    first = offload.send(torch.tensor([1], device=device), [0])
    for step in range(HOST_SLOTS):
        offload.send(torch.tensor([step], device=device), [0])
    with pytest.raises(RuntimeError, match="steps late"):
        first.ids()


def test_a_step_without_samples_has_no_ids(offload: Offload, device: torch.device) -> None:
    empty = torch.empty(0, dtype=torch.int64, device=device)
    assert offload.send(empty, []).ids() == []
