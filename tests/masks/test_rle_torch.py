"""Run lengths within torch: opcheck, compile, fake tensors, threads, modes."""

import pytest
import torch
import visops
from kernels import use_slot
from recorder import Recorder
from torch import Tensor

from masks.mask_cases import some_masks

OPS = torch.ops.visops


def test_strided_runs() -> None:
    masks = some_masks()
    ends, offsets = OPS.masks_to_runs(masks)
    apart = [torch.stack([part, part + 1], 1)[:, 0] for part in (ends, offsets)]
    assert not apart[0].is_contiguous()
    assert torch.equal(OPS.runs_to_bits(*apart, masks.shape[1:]), OPS.pack_masks(masks))


def test_compile_of_the_operators() -> None:
    """The number of runs stays open."""

    def step(masks: Tensor) -> Tensor:
        ends, offsets = OPS.masks_to_runs(masks)
        bits: Tensor = OPS.runs_to_bits(ends, offsets, masks.shape[1:])
        return OPS.unpack_masks(bits, masks.shape[2])  # type: ignore[no-any-return]

    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
        for masks in (some_masks(), some_masks(3, 20, 133), some_masks(5, 8, 96)):
            assert torch.equal(compiled(masks), masks)


def test_functions_break_graphs() -> None:
    """They are called between two graphs."""

    def step(masks: Tensor) -> Tensor:
        rles = visops.masks_to_rle(masks.logical_not())
        decoded: Tensor = visops.rle_to_masks(rles)
        return decoded.logical_not() & (visops.rle_area(rles)[:, None, None] >= 0)

    torch._dynamo.reset()
    masks = some_masks()
    assert torch.equal(torch.compile(step, backend="eager")(masks), masks)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="its Python reads values"):
        torch.compile(step, backend="eager", fullgraph=True)(masks)


def test_one_wait_for_the_runs() -> None:
    """Emulated CUDA reads how many there are, and no masks."""
    masks = torch.rand((4, 30, 70), generator=torch.Generator().manual_seed(0)) < 0.6
    with use_slot("cuda_emulated"), Recorder() as found:
        OPS.masks_to_runs(masks)
    copies = [args[0] for name, args, _ in found.calls if name == "_to_copy"]
    assert [copy.numel() for copy in copies] == [1]
    assert len(found.waits) == 1
