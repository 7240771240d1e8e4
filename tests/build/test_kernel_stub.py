"""The choice of the kernel. VISOPS_CPU is read once per process."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import visops
from kernels import every_slot, use_slot


def run(code: str, cpu: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "VISOPS_CPU"}
    if cpu is not None:
        environment["VISOPS_CPU"] = cpu
    return subprocess.run(
        [sys.executable, "-c", f"import numpy as np, torch, visops\n{code}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_environment_forces_a_slot() -> None:
    assert run("print(visops.build_info()['cpu'])", "default").stdout.split() == ["default"]


@every_slot
def test_every_slot_has_kernels(slot: str) -> None:
    image = torch.arange(12.0).reshape(1, 1, 3, 4)
    array = np.arange(12, dtype=np.uint8).reshape(3, 4)
    with use_slot(slot):
        assert visops.build_info()["cpu"] == slot
        assert torch.equal(visops.warp_affine(image, torch.eye(2, 3)), image)
        assert (visops.warp_affine(array, np.eye(2, 3)) == array).all()


@pytest.mark.parametrize("cpu", [None, ""])
def test_default_is_the_best_real_one(cpu: str | None) -> None:
    real = [name for name in visops.build_info()["cpu_available"] if name != "cuda_emulated"]
    assert run("print(visops.build_info()['cpu'])", cpu).stdout.split() == [real[-1]]


@pytest.mark.parametrize("cpu", ["avx", "cuda"])
def test_other_values_are_errors_that_list_the_available(cpu: str) -> None:
    code = """
def attempt(call):
    try:
        print(call())
    except Exception as error:
        print(error)

attempt(visops.build_info)
attempt(lambda: visops.warp_affine(torch.zeros(1, 1, 3, 4), torch.eye(2, 3)))
attempt(lambda: visops.warp_affine(np.zeros((3, 4), np.uint8), np.eye(2, 3)))
"""
    available = ", ".join(visops.build_info()["cpu_available"])
    message = (
        f"visops: VISOPS_CPU={cpu} is not available; this build on this processor has: {available}"
    )
    assert run(code, cpu).stdout.splitlines() == [message] * 3
