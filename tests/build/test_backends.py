"""One answer: every instruction set, thread count and device gives the same bits.

What is compared is in the modules tests/*/*_outputs.py: `outputs(device)` yields the name and value
of everything that an operator's kernels decide, and `check(found)` says what makes their equality
mean something.
"""

import importlib
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
import visops
from kernels import SLOTS, use_schedule, use_slot

TESTS = Path(__file__).resolve().parents[1]
MODULES = sorted(f"{file.parent.name}.{file.stem}" for file in TESTS.glob("*/*_outputs.py"))

# Two threads everywhere: those bits are compared with the ones of a single thread. The emulation
# runs on one thread whatever it is told.
RUNS = [(slot, 1 if slot == "cuda_emulated" else 2) for slot in SLOTS]

Outputs = dict[str, np.ndarray]


# Each module's tests run in one process, which computes `expected` once.
@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in MODULES],
)
def module(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(module: str, slot: str, threads: int) -> Outputs:
    """What the module's `outputs()` gives there.

    Emulated blocks and threads run in an order that is drawn, as any order must give these bits.
    Other tests of the emulation have the usual order.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    schedule = use_schedule(1) if slot == "cuda_emulated" else nullcontext()
    try:
        with use_slot(slot), schedule:
            return dict(importlib.import_module(module).outputs())
    finally:
        torch.set_num_threads(before)


@pytest.fixture(scope="module")
def expected(module: str) -> Outputs:
    if "cuda_emulated" not in SLOTS:  # a wheel: it can't change kernels
        return run(module, visops.build_info()["cpu"], 1)
    return run(module, "default", 1)


def assert_same_bits(actual: Outputs, expected: Outputs) -> None:
    """Also signs of zeros, dtypes and shapes."""
    assert actual.keys() == expected.keys()
    differing = [
        name
        for name, array in expected.items()
        if (actual[name].dtype, actual[name].shape) != (array.dtype, array.shape)
        or actual[name].tobytes() != array.tobytes()
    ]
    assert not differing


def test_there_are_modules() -> None:
    assert len(MODULES) >= 7


def test_outputs_mean_something(module: str, expected: Outputs) -> None:
    importlib.import_module(module).check(expected)


@pytest.mark.parametrize(("slot", "threads"), RUNS)
def test_same_bits(module: str, slot: str, threads: int, expected: Outputs) -> None:
    assert_same_bits(run(module, slot, threads), expected)


@pytest.mark.cuda
def test_same_bits_on_cuda(module: str, expected: Outputs) -> None:
    assert_same_bits(dict(importlib.import_module(module).outputs("cuda")), expected)
