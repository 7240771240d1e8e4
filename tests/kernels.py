"""Which kinds of kernel this machine has, and how a test changes between them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import visops
from visops import _native
from visops._loader import LIBRARY

SLOTS: list[str] = visops.build_info()["cpu_available"]

every_slot = pytest.mark.parametrize("slot", SLOTS)


@contextmanager
def use_slot(slot: str) -> Iterator[None]:
    """Run what is inside on the kernels of `slot`, as VISOPS_CPU does for a whole process."""
    before: str = visops.build_info()["cpu"]
    if slot == before:
        yield
        return
    _force(slot)
    try:
        yield
    finally:
        _force(before)


def _force(slot: str) -> None:
    if "cuda_emulated" not in SLOTS:
        pytest.skip("only test builds (VISOPS_EMULATION=1) can change kernels")
    for file in (LIBRARY, _native.__file__):
        function = ctypes.CDLL(str(file)).visops_force_cpu
        function.restype = ctypes.c_char_p
        error = function(slot.encode())
        assert error is None, error.decode()


@contextmanager
def use_schedule(seed: int) -> Iterator[None]:
    """Run emulated blocks and threads in an order drawn with `seed`; 0 is the usual one."""
    if "cuda_emulated" not in SLOTS:
        pytest.skip("only test builds (VISOPS_EMULATION=1) emulate CUDA")
    function = ctypes.CDLL(str(LIBRARY)).visops_set_schedule
    function.argtypes = [ctypes.c_ulonglong]
    function.restype = ctypes.c_ulonglong
    before = function(seed)
    try:
        yield
    finally:
        function(before)


def take_tally() -> int:
    """The steps that emulated kernels have counted (csrc/cuda/tally.h) since the last call."""
    function = ctypes.CDLL(str(LIBRARY)).visops_take_tally
    function.restype = ctypes.c_longlong
    return int(function())


def take_launches() -> int:
    """How many emulated kernels have been started since the last call, one for several in a row."""
    function = ctypes.CDLL(str(LIBRARY)).visops_take_launches
    function.restype = ctypes.c_longlong
    return int(function())
