"""Distance transforms within torch: opcheck, compile, vmap, fake tensors, threads."""

import pytest
import torch
import visops
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from masks.mask_cases import LAYOUTS, some_masks

OP = torch.ops.visops.distance_transform


@pytest.mark.parametrize("layout", LAYOUTS)
def test_opcheck(layout: str) -> None:
    masks = LAYOUTS[layout](some_masks())
    torch.library.opcheck(OP, (masks,))
    torch.library.opcheck(OP, (masks, "taxicab", [], 3, True))
    torch.library.opcheck(OP, (masks.byte(), "euclidean", [1.5, 0.5], 2, True))


@pytest.mark.parametrize("shape", [(0, 3), (0, 2, 3), (2, 2, 0)])
def test_opcheck_of_nothing(shape: tuple[int, ...]) -> None:
    torch.library.opcheck(OP, (torch.zeros(shape, dtype=torch.bool), "chessboard", [], 2, True))


def test_compile() -> None:
    def step(masks: Tensor) -> tuple[Tensor, ...]:
        found, indices = visops.distance_transform(masks, metric="chessboard", return_indices=True)
        return visops.distance_transform(masks, spacing=(2, 1)) + 1, found * 2, indices + 1

    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
        for masks in (some_masks(), some_masks(3, 20, 33), some_masks(5, 8, 16)):
            for ours, wanted in zip(compiled(masks), step(masks), strict=True):
                assert torch.equal(ours, wanted)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_vmap(dim: int) -> None:
    masks = some_masks()

    def step(mask: Tensor) -> tuple[Tensor, ...]:
        alone = visops.distance_transform(mask, metric="taxicab")
        return alone, *visops.distance_transform(mask, return_indices=True)

    found = torch.vmap(step, in_dims=dim)(masks.movedim(0, dim))
    for ours, wanted in zip(found, step(masks), strict=True):
        assert torch.equal(ours, wanted)


def test_fake_tensors() -> None:
    with FakeTensorMode() as mode:
        masks = mode.from_tensor(some_masks())
        found, indices = visops.distance_transform(masks, return_indices=True)
        assert (found.shape, found.dtype) == ((4, 9, 70), torch.float32)
        assert (indices.shape, indices.dtype) == ((4, 2, 9, 70), torch.int32)
        indices = visops.distance_transform(masks, dims=3, return_indices=True)[1]
        assert indices.shape == (3, 4, 9, 70)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("shape", [(1, 500, 600), (2, 400, 500), (7, 90, 300)])
def test_threads_change_nothing(shape: tuple[int, ...]) -> None:
    masks = torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.999
    for options in ({}, {"metric": "chessboard"}, {"spacing": 2.0}, {"dims": 3}):
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(
                visops.distance_transform(masks, return_indices=True, **options)  # type: ignore[call-overload]
            )
        for other in results[1:]:
            assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_modes() -> None:
    masks = some_masks()
    expected = visops.distance_transform(masks)
    with torch.inference_mode():
        assert torch.equal(visops.distance_transform(masks), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = visops.distance_transform(masks)
    assert torch.equal(found, expected)
    assert not found.requires_grad
