"""From the settings to running engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.engines.torch.client import TorchEngine
from millstream.engines.torch.options import EngineOptions
from millstream.telemetry.diagnostics import usable_processors

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from millstream.config import Settings, TorchEngineSettings
    from millstream.engines.base import Engine
    from millstream.streams.hubs import Hubs


async def open_engines(
    settings: Settings, stack: AsyncExitStack, *, hubs: Hubs
) -> dict[str, Engine]:
    """Every engine by its name, started; the stack closes them."""
    engines = {name: _engine(name, engine, hubs) for name, engine in settings.engines.items()}
    for engine in engines.values():
        stack.push_async_callback(engine.close)
        await engine.start()
    return engines


def _engine(name: str, settings: TorchEngineSettings, hubs: Hubs) -> Engine:
    options = EngineOptions(
        model=settings.model,
        dtype="bfloat16" if settings.dtype == "auto" else settings.dtype,
        device=settings.device,
        threads=settings.threads or usable_processors(),
        max_batch=settings.max_batch,
        kv_tokens=settings.kv_tokens,
    )
    return TorchEngine(name, options, hub=hubs.of(name))
