"""Waiting for what other threads and processes do: however busy the machine is."""

import time
from collections.abc import Callable

# Seconds after which a test takes what it waits for to have failed. It only has to end a test that
# hangs: on a machine with many more processes than cores, importing torch can take minutes.
LIMIT = 600.0


def until(condition: Callable[[], object], otherwise: str = "it never comes") -> None:
    """Wait for something to be so, which it has to be within the limit."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, otherwise
        time.sleep(0.01)
