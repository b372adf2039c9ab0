"""Which settings a running server takes over, and which ones need a restart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from millstream.config.problems import dotted

if TYPE_CHECKING:
    from millstream.config.models import ModelSettings
    from millstream.config.settings import Settings

_OF_A_MODEL = ("limits", "timeouts", "streams", "max_tokens")
_OF_AUTH = ("roles", "default_tenant")
# Every delivery under way shares the timer that this sets.
_FIXED_OF_STREAMS = ("coalesce_ms",)

_ABSENT = object()


def reloaded(running: Settings, wanted: Settings) -> Settings:
    """What runs, with all of ``wanted`` that needs no restart.

    The set of models stays: one that is new in ``wanted`` is not served, one that is missing there
    goes on as it is.
    """
    models = {
        name: _reloaded_model(model, wanted.models.get(name, model))
        for name, model in running.models.items()
    }
    fixed = {name: getattr(running.streams, name) for name in _FIXED_OF_STREAMS}
    changes = {name: getattr(wanted.auth, name) for name in _OF_AUTH}
    return running.model_copy(
        update={
            "tenants": wanted.tenants,
            "limits": wanted.limits,
            "models": models,
            "streams": wanted.streams.model_copy(update=fixed),
            "auth": running.auth.model_copy(update=changes),
        }
    )


def _reloaded_model(running: ModelSettings, wanted: ModelSettings) -> ModelSettings:
    return running.model_copy(update={name: getattr(wanted, name) for name in _OF_A_MODEL})


def restart_needed(running: Settings, wanted: Settings) -> tuple[str, ...]:
    """Keys in which ``wanted`` differs from what runs and that only a restart takes over."""
    target = reloaded(running, wanted)
    # The tenants of both are the same.
    before, after = (one.model_dump(exclude={"tenants"}) for one in (target, wanted))
    return tuple(dotted(key) for key in _differences(before, after, ()))


def _differences(
    running: object, wanted: object, key: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    if running == wanted:
        return
    if not (isinstance(running, Mapping) and isinstance(wanted, Mapping)):
        yield key
        return
    for name in [*running, *(name for name in wanted if name not in running)]:
        below = running.get(name, _ABSENT), wanted.get(name, _ABSENT)
        yield from _differences(*below, (*key, name))
