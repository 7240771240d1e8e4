"""Memory that was freed is kept, whatever the thread."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.skipif(
        not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="malloc is not glibc's"
    ),
]

BLOCK = 80 << 20  # bytes: beyond the 64 MB that glibc has for a thread
ROUNDS = 5
PROGRAM = f"""
import resource, sys, threading
import torch
from visops.infer import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def work():
    # malloc puts the few bytes that alignment leaves over aside, for the thread's small objects, up
    # to seven times; so often a block that is freed has no room for another one of its size.
    for _ in range(10):
        torch.ones({BLOCK}, dtype=torch.uint8)
    before = faults()
    for _ in range({ROUNDS}):
        torch.ones({BLOCK}, dtype=torch.uint8)
    print(faults() - before)

if sys.argv[1] == "kept":
    assert keep_freed_memory()
thread = threading.Thread(target=work)
thread.start()
thread.join()
work()
"""


def faults(kept: str) -> list[int]:
    """Pages that were mapped for the last blocks, in another thread and in the first one."""
    command = [sys.executable, "-c", PROGRAM, kept]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


def test_freed_memory_is_kept_in_all_threads() -> None:
    huge_page = 2 << 20
    of_a_block = BLOCK // huge_page  # at least
    assert max(faults("kept")) < of_a_block
    assert min(faults("given back")) >= ROUNDS * of_a_block
