"""Freed memory is kept, in every thread."""

import ctypes
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.skipif(
        not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="malloc is not glibc's"
    ),
]

BLOCK = 80 << 20  # bytes, more than the 64 MB of a thread's arena in glibc
ROUNDS = 5
PROGRAM = f"""
import os, resource, threading
import torch
from visops.infer import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def work():
    # Up to seven times, malloc sets the few bytes left over by alignment aside for small objects of
    # the thread. Each time, the block that is freed is too small for the next one.
    for _ in range(10):
        torch.ones({BLOCK}, dtype=torch.uint8)
    before = faults()
    for _ in range({ROUNDS}):
        torch.ones({BLOCK}, dtype=torch.uint8)
    print(faults() - before, flush=True)

for kept in (True, False):  # in forks, because importing torch takes longest
    if os.fork() == 0:
        if kept:
            assert keep_freed_memory()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        work()
        os._exit(0)
    assert os.wait()[1] == 0
"""


def faults() -> list[int]:
    """Pages mapped for the last blocks: kept and given back, in another thread and the first."""
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


def test_freed_memory_is_kept_in_all_threads() -> None:
    huge_page = 2 << 20
    of_a_block = BLOCK // huge_page  # at least
    kept = []
    for _ in range(3):  # under load, one block of hundreds has been mapped anew
        pages = faults()
        assert min(pages[2:]) >= ROUNDS * of_a_block
        kept.append(max(pages[:2]))
        if kept[-1] < of_a_block:
            return
    pytest.fail(f"{kept} pages were mapped")
