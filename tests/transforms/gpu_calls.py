"""Chains as on a GPU, without one: their calls of torch, launches and uploads are counted.

Tensors of the CPU say that they lie elsewhere, and emulated kernels run on them. So a chain takes
the ways that it takes on a GPU, where its time is that of the host: of what is counted here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from kernels import take_launches, use_slot
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from visops import _native

_POINTERS = (
    "visops.transforms.chain.operators.data_ptr_and_strides",
    "visops.transforms.chain.execute.data_ptr_and_strides",
    "visops.warp.augment_direct.data_ptr_and_strides",
)


@dataclass
class Calls:
    """What a call of a chain asks of torch and of the GPU."""

    operators: list[str]  # the operators that Python calls, by name
    launches: int  # of kernels of visops
    uploads: int


@contextmanager
def as_on_gpu() -> Iterator[None]:
    """Let tensors say that they are not on the CPU, and emulated kernels run."""
    with use_slot("cuda_emulated"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tensor, "is_cpu", False, raising=False)
        patch.setattr(_native.Pipeline, "run", lambda *_: (False, None))
        for name in _POINTERS:
            patch.setattr(name, lambda _: None)
        yield


def counted(chain: Any, batch: Any, **options: Any) -> tuple[Any, Calls]:
    """Return what a chain makes of a batch as on a GPU, and what it took."""
    uploads = 0
    move = Tensor.to

    def counting(self: Tensor, *arguments: Any, **named: Any) -> Tensor:
        nonlocal uploads
        uploads += bool(named.get("non_blocking"))
        return move(self, *arguments, **named)

    with as_on_gpu(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tensor, "to", counting)
        chain(batch, **options)  # forms passes, and loads what the first call loads
        take_launches()
        uploads = 0
        with profile(activities=[ProfilerActivity.CPU]) as found:
            result = chain(batch, **options)
    names = [event.name for event in found.events() if event.cpu_parent is None]
    operators = [name for name in names if name.startswith(("aten::", "visops::"))]
    return result, Calls(operators, take_launches(), uploads)
