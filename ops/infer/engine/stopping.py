"""Signals: the first one drains, the second one kills."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["Draining"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Draining:
    """Within it, SIGINT and SIGTERM stop what :meth:`bind` was given; a second one has its way.

    Outside of the main thread, where Python takes no handlers, signals do as before.

    Attributes
    ----------
    received : int or None
        The signal that came.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._stop: Callable[[], None] | None = None
        self._before: dict[int, Any] = {}

    def bind(self, stop: Callable[[], None]) -> None:
        """Say what stops the work; at once, if a signal has come before there was any."""
        self._stop = stop
        if self.received is not None:
            stop()

    def __enter__(self) -> Draining:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.received = number
        if self._stop is not None:
            self._stop()
