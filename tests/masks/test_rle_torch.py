"""Run lengths within torch: opcheck, compile, fake tensors, threads, modes."""

import pytest
import torch
import visops
from kernels import use_slot
from recorder import Recorder
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from masks.mask_cases import LAYOUTS, some_masks

OPS = torch.ops.visops


@pytest.mark.parametrize("layout", LAYOUTS)
def test_opcheck(layout: str) -> None:
    masks = LAYOUTS[layout](some_masks())
    torch.library.opcheck(OPS.masks_to_runs, (masks,))
    bits = LAYOUTS[layout](OPS.pack_masks(masks))
    torch.library.opcheck(OPS.masks_to_runs, (bits, 70))
    torch.library.opcheck(OPS.runs_to_bits, (*OPS.masks_to_runs(masks), masks.shape[1:]))


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (2, 2, 0)])
def test_opcheck_of_nothing(shape: tuple[int, ...]) -> None:
    masks = torch.zeros(shape, dtype=torch.bool)
    torch.library.opcheck(OPS.masks_to_runs, (masks,))
    torch.library.opcheck(OPS.masks_to_runs, (OPS.pack_masks(masks), shape[-1]))
    torch.library.opcheck(OPS.runs_to_bits, (*OPS.masks_to_runs(masks), shape[1:]))


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


def test_fake_tensors() -> None:
    with FakeTensorMode():
        ends = torch.zeros(7, dtype=torch.int32)
        offsets = torch.zeros(5, dtype=torch.int64)
        found = OPS.runs_to_bits(ends, offsets, [9, 70])
        assert (found.shape, found.dtype) == ((4, 9, 2), torch.int64)


@pytest.mark.usefixtures("restored_threads")
def test_threads_change_nothing() -> None:
    masks = torch.rand((9, 300, 200), generator=torch.Generator().manual_seed(0)) < 0.6
    masks[3] = False
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        runs = OPS.masks_to_runs(masks)
        packed = OPS.masks_to_runs(OPS.pack_masks(masks), 200)
        results.append((*runs, *packed, OPS.runs_to_bits(*runs, [300, 200])))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_modes() -> None:
    masks = some_masks()
    expected = visops.masks_to_rle(masks)
    with torch.inference_mode():
        assert visops.masks_to_rle(masks) == expected
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert visops.masks_to_rle(masks) == expected


def test_one_wait_for_the_runs() -> None:
    """Emulated CUDA reads how many there are, and no masks."""
    masks = torch.rand((4, 30, 70), generator=torch.Generator().manual_seed(0)) < 0.6
    with use_slot("cuda_emulated"), Recorder() as found:
        OPS.masks_to_runs(masks)
    copies = [args[0] for name, args, _ in found.calls if name == "_to_copy"]
    assert [copy.numel() for copy in copies] == [1]
    assert len(found.waits) == 1
