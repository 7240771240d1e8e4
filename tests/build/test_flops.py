"""torch's counter of floating point operations counts those of convolutions."""

import subprocess
import sys
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import visops
from torch.utils.flop_counter import FlopCounterMode


def counted(call: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("backward", [False, True])
def test_layers_count_as_torch_s(groups: int, backward: bool) -> None:
    image = torch.rand(2, 4, 9, 10, requires_grad=backward)
    weight = torch.rand(6, 4 // groups, 3, 3, requires_grad=backward)

    def run(function: Any, *arguments: Any) -> Any:
        result = function(image, *arguments)
        return result.sum().backward() if backward else result

    with torch.no_grad():  # of its gradient's weights, torch counts those of other groups as well
        expected = counted(lambda: F.conv2d(image, weight, None, 1, 1, 1, groups))
    expected *= 3 if backward else 1
    assert counted(lambda: run(visops.conv2d, weight, None, 1, 1, 1, groups)) == expected > 0
    if groups == 1:
        offset = torch.zeros(2, 18, 9, 10, requires_grad=backward)
        found = counted(lambda: run(visops.deform_conv2d, offset, weight, None, 1, 1))
        assert found == expected or (backward and found > expected)  # and the offsets' gradients


def test_filters() -> None:
    image = torch.rand(5, 20, 30)
    kernel = torch.rand(3, 7)
    direct = counted(lambda: visops.convolve2d(image, kernel, "same", method="direct"))
    assert direct == 2 * image.numel() * 21
    assert counted(lambda: visops.gaussian_blur(image, 5, 1.0)) > 0


def test_the_counter_may_be_imported_before_or_after() -> None:
    program = """
import {first}
import {second}
import torch, visops
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False) as counter:
    visops.conv2d(torch.rand(1, 1, 4, 4), torch.rand(1, 1, 3, 3))
print(counter.get_total_flops())
"""
    names = ("visops", "torch.utils.flop_counter")
    for first, second in (names, names[::-1]):
        code = program.format(first=first, second=second)
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert int(run.stdout) == 2 * 4 * 9
