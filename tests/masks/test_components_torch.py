"""Connected components within torch: opcheck, compile, vmap, fake tensors, threads."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from masks.mask_cases import LAYOUTS, label_map, some_masks

OPS = torch.ops.visops


@pytest.mark.parametrize("layout", LAYOUTS)
def test_opcheck(layout: str) -> None:
    masks = LAYOUTS[layout](some_masks())
    torch.library.opcheck(OPS.connected_components, (masks,))
    torch.library.opcheck(OPS.remove_small_regions, (masks, 4, "islands", 4))
    labels = LAYOUTS[layout](OPS.connected_components(masks)[0])
    torch.library.opcheck(OPS.component_stats, (labels, 5))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
def test_opcheck_of_label_maps(dtype: torch.dtype) -> None:
    torch.library.opcheck(
        OPS.connected_components, (label_map(np.random.default_rng(0), 7, 20, dtype), 4)
    )


@pytest.mark.parametrize("shape", [(0, 3), (0, 2, 3), (2, 2, 0)])
def test_opcheck_of_nothing(shape: tuple[int, ...]) -> None:
    masks = torch.zeros(shape, dtype=torch.bool)
    torch.library.opcheck(OPS.connected_components, (masks,))
    torch.library.opcheck(OPS.remove_small_regions, (masks, 4))
    torch.library.opcheck(OPS.component_stats, (masks.int(), 2))
    torch.library.opcheck(OPS.component_stats, (torch.ones(3, 4, dtype=torch.int32), 0))


def test_compile() -> None:
    """One program for any sizes and any number of components."""

    def step(masks: Tensor) -> tuple[Any, ...]:
        labels, stats = visops.connected_components(masks, return_stats=True)
        limited = visops.connected_components(masks, return_stats=True, max_components=3)[1]
        cleaned, changed = visops.remove_small_regions(masks, masks.shape[-1] // 8, "islands")
        return labels + 1, *stats, limited.boxes, cleaned, changed

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True, error_on_recompile=True):
        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
        for masks in (
            some_masks(),
            some_masks(3, 20, 33),
            some_masks(2) & False,
            some_masks(5, 8, 16),
        ):
            for ours, wanted in zip(compiled(masks), step(masks), strict=True):
                assert torch.equal(ours, wanted)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_vmap(dim: int) -> None:
    masks = some_masks()

    def step(mask: Tensor) -> tuple[Tensor, ...]:
        labels, stats = visops.connected_components(mask, return_stats=True, max_components=9)
        return labels, *stats, *visops.remove_small_regions(mask, 5, connectivity=4)

    found = torch.vmap(step, in_dims=dim)(masks.movedim(0, dim))
    for ours, wanted in zip(found, step(masks), strict=True):
        assert torch.equal(ours, wanted)


def test_fake_tensors() -> None:
    with FakeTensorMode() as mode:
        masks = mode.from_tensor(some_masks())
        labels, stats = visops.connected_components(masks, return_stats=True, max_components=6)
        assert (labels.shape, labels.dtype) == ((4, 9, 70), torch.int32)
        assert [tuple(s.shape) for s in stats] == [(4,), (4, 6), (4, 6, 4), (4, 6, 2)]


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("shape", [(1, 500, 600), (2, 400, 500), (7, 90, 300)])
def test_threads_change_nothing(shape: tuple[int, ...]) -> None:
    masks = torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.6
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        labels, stats = visops.connected_components(masks, connectivity=4, return_stats=True)
        results.append((labels, *stats, *visops.remove_small_regions(masks, 9)))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_modes() -> None:
    masks = some_masks()
    expected = visops.connected_components(masks)
    with torch.inference_mode():
        assert torch.equal(visops.connected_components(masks), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        stats = visops.connected_components(masks, return_stats=True)[1]
    assert stats.centroids.dtype == torch.float64
