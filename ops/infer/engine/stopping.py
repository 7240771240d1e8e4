"""Signals: the first drains the run, the second kills the process."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Draining:
    """A context in which SIGINT and SIGTERM call what :meth:`bind` was given; a second one kills.

    Outside the main thread, where Python can't install handlers, signals act as before.

    Attributes
    ----------
    received : int or None
        The signal received.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._stop: Callable[[], None] | None = None
        self._before: dict[int, Any] = {}

    def bind(self, stop: Callable[[], None]) -> None:
        """Set the function that stops the work; call it now if a signal has already come."""
        self._stop = stop
        if self.received is not None:
            stop()

    def __enter__(self) -> "Draining":
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
