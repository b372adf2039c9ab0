"""From the settings to the durable streams of one worker."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from millstream.api import durable
from millstream.streams.sweeper import Sweeper

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from fastapi import FastAPI

    from millstream.api.services import Services
    from millstream.config import Settings


def open_durable(
    settings: Settings, services: Services, stack: AsyncExitStack
) -> durable.DurableService:
    """What the routes of durable streams work with; the stack ends the streams."""
    streams = durable.new_registry(settings.durable, leaving=lambda: services.drain.begun)
    stack.callback(streams.close)
    sweeper = Sweeper([streams])
    stack.callback(sweeper.close)
    sweeper.start()
    return durable.DurableService(
        streams,
        settings.durable,
        serves=lambda: settings.server.workers == 1 and not services.several_workers(),
        max_body_bytes=settings.server.max_body_bytes,
        body_seconds=settings.server.body_seconds,
        keep_alive_seconds=settings.streams.keep_alive_seconds,
        blocked_send_seconds=settings.streams.blocked_send_seconds,
    )


def follow_streams(app: FastAPI, settings: Settings) -> None:
    """Later reads of durable streams are watched as these settings say."""
    app.state.durable = replace(
        app.state.durable,
        keep_alive_seconds=settings.streams.keep_alive_seconds,
        blocked_send_seconds=settings.streams.blocked_send_seconds,
    )
