"""The settings in force, which change while the server runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING, TypeVar

from millstream.config.problems import dotted
from millstream.config.reloadable import reloaded, restart_needed
from millstream.config.secrets import scrubbed
from millstream.config.whole import problems_of
from millstream.errors import ConfigError

if TYPE_CHECKING:
    from millstream.config.settings import Settings

T = TypeVar("T")
Step = Callable[[], None]
Follower = Callable[["Settings"], Step]
"""Makes of settings what takes them over."""


@dataclass(frozen=True, slots=True)
class Change:
    """What new settings come to: ``settings`` would be in force, ``nothing`` if they are already.

    ``restart_needed`` are the keys that only a restart takes over, ``steps`` what each follower
    has prepared.
    """

    settings: Settings
    restart_needed: tuple[str, ...]
    nothing: bool
    revision: int
    steps: tuple[tuple[Follower, Step], ...]


class LiveSettings:
    """One immutable value that is replaced as a whole; whoever has read it keeps what it read.

    A new request looks at `current`; a stream keeps what it was admitted with. ``source`` says
    where the settings come from, ``wall_clock`` is in unix nanoseconds.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        source: str = "defaults and environment",
        wall_clock: Callable[[], int] = time_ns,
    ) -> None:
        self._current = settings
        self._wall_clock = wall_clock
        self._followers: list[Follower] = []
        self.revision = 1
        self.source = source
        self.loaded_at = self._now()
        self.last_error: str | None = None
        self.restart_needed: tuple[str, ...] = ()

    @property
    def current(self) -> Settings:
        """The settings in force."""
        return self._current

    def subscribe(self, callback: Callable[[Settings], None]) -> Callable[[], None]:
        """Have ``callback`` called with all settings after each change; returns what ends that.

        Between the change and the call nothing else runs on the loop.
        """
        return self.follow(lambda settings: settings, callback)

    def follow(
        self, prepare: Callable[[Settings], T], apply: Callable[[T], None]
    ) -> Callable[[], None]:
        """The same with what ``prepare`` has made of the settings, in whatever thread makes the
        change; with a `ConfigError` of it they are not taken.
        """

        def follower(settings: Settings) -> Step:
            return partial(apply, prepare(settings))

        self._followers.append(follower)
        return partial(self._followers.remove, follower)

    def change(self, wanted: Settings) -> Change:
        """What ``wanted`` comes to, beside what runs; nothing changes yet.

        Fit for another thread: with many tenants it takes a while. Raises `ConfigError` if the two
        do not go together, or a follower cannot go by them.
        """
        _check_roles(self._current, wanted)
        target = reloaded(self._current, wanted)
        problems = problems_of(target, promised=wanted.models)
        if problems:
            lines = (f"{dotted(problem.location)}: {problem.message}" for problem in problems)
            raise ConfigError("\n".join(lines))
        nothing = target == self._current
        followers = () if nothing else tuple(self._followers)
        return Change(
            target,
            restart_needed(self._current, wanted),
            nothing=nothing,
            revision=self.revision,
            steps=tuple((follower, follower(target)) for follower in followers),
        )

    def replace(self, change: Change, *, source: str) -> bool:
        """Put it in force; False if nothing changes.

        Raises ValueError if it was made beside other settings than those that run now.
        """
        if change.revision != self.revision:
            raise ValueError("the settings have changed meanwhile")
        self.restart_needed = change.restart_needed
        self.last_error = None
        if change.nothing:
            return False
        self._current = change.settings
        self.revision += 1
        self.source = source
        self.loaded_at = self._now()
        self._tell(change)
        return True

    def refuse(self, source: str, reason: str) -> str:
        """Remember why something new was not taken; returns it without its secrets."""
        self.last_error = scrubbed(reason if source in reason else f"{source}: {reason}")
        return self.last_error

    def _tell(self, change: Change) -> None:
        prepared, failures = dict(change.steps), []
        for follower in tuple(self._followers):
            try:
                # Who has come meanwhile is told, too.
                step = prepared.get(follower) or follower(change.settings)
                step()
            except Exception as error:
                failures.append(error)
        if failures:
            # The others have heard; what is wrong with one is a fault of the server.
            raise ExceptionGroup("settings have changed, and not all parts follow", failures)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._wall_clock() / 1e9, UTC)


def _check_roles(running: Settings, wanted: Settings) -> None:
    # Half of a file may be whole TOML: without its roles nothing would be trimmed any more.
    if running.auth.mode == "required" and running.auth.roles and not wanted.auth.roles:
        raise ConfigError(
            "auth.roles: a running server does not give up its last role, since without any no "
            "scope is trimmed; restart it for that"
        )
