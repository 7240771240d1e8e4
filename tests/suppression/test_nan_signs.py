"""NaN scores on CUDA: what is sorted has NaN of one sign.

Some of torch's sorts on CUDA put NaN first or last by their sign (pytorch#190781), and 0 / 0 on x86
is a negative one. The sorts on the CPU don't, so this looks at what they are given.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from kernels import use_slot
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

BOXES = torch.tensor([[0.0, 0, 4, 4], [1, 1, 5, 5], [9, 9, 12, 12], [0, 0, 4, 5]])
ROTATED = torch.cat([BOXES + 1, torch.zeros(4, 1)], 1)
SCORES = torch.tensor([0.5, -torch.nan, 0.25, torch.nan])
IDS = torch.tensor([0, 1, 0, 1])


class Sorted(TorchDispatchMode):
    """Collects what a kernel sorts."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.namespace == "visops":
            with self:  # for the calls that the kernel makes
                keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
                return func.redispatch(keys, *args, **(kwargs or {}))
        if func is torch.ops.aten.sort.stable and args[0].is_floating_point():
            self.keys.append(args[0])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "call",
    [
        lambda: visops.nms(BOXES, SCORES, 0.5),
        lambda: visops.batched_nms(BOXES, SCORES, IDS, 0.5),
        lambda: visops.nms_padded(BOXES[None], SCORES[None], 0.5, 3),
        lambda: visops.nms_rotated(ROTATED, SCORES, 0.5),
        lambda: visops.nms_match(BOXES, SCORES, 0.5),
    ],
    ids=["nms", "batched_nms", "nms_padded", "nms_rotated", "nms_match"],
)
def test_sorted_scores_have_one_nan(call: Callable[[], Any]) -> None:
    assert SCORES.signbit().tolist() == [False, True, False, False]
    with use_slot("cuda_emulated"), Sorted() as found:
        call()
    assert found.keys
    for keys in found.keys:
        assert keys.isnan().any()
        assert not (keys.isnan() & keys.signbit()).any()
