"""Waiting for what other threads and processes do: however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], otherwise: str = "it never comes") -> None:
    """Wait for something to be so, which it has to be within half a minute."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, otherwise
        time.sleep(0.01)
