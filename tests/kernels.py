"""Which kinds of kernel this machine has, and how a test changes between them."""

import ctypes
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

import pytest
import visops
from visops import _native
from visops._loader import LIBRARY

Test = TypeVar("Test", bound=Callable[..., Any])

SLOTS: list[str] = visops.build_info()["cpu_available"]

# Where a kind is asked for, by VISOPS_CPU, a test that could run on all of them runs on that one.
_WANTED = [visops.build_info()["cpu"]] if os.environ.get("VISOPS_CPU") else SLOTS


def every_slot(test: Test) -> Test:
    """Run a test once on each kind of kernel, which it is told as `slot`."""
    marked: Test = pytest.mark.parametrize("slot", _WANTED)(test)
    return pytest.mark.slots(marked)


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


def find_cuobjdump() -> str:
    """Return the path of CUDA's program, or of the one that triton's package has."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    triton = find_spec("triton")
    packages = (triton and triton.submodule_search_locations) or []
    folders = [f"{home}/bin", *(f"{package}/backends/nvidia/bin" for package in packages)]
    found = shutil.which("cuobjdump") or shutil.which("cuobjdump", path=os.pathsep.join(folders))
    if found is None:
        pytest.skip("cuobjdump was not found")
    return found
