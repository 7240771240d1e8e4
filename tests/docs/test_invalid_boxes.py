"""The table of docs/roi_align.md on invalid boxes: each row, on the CPU and on CUDA."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchvision
import visops
from torch import Tensor

from docs.names import DOCS, lines_of

NAN, INF = float("nan"), float("inf")
GOOD = [0.0, 1, 1, 5, 5]
MAPS = torch.rand(2, 3, 8, 9, generator=torch.Generator().manual_seed(0))
Pool = Callable[[Tensor, Tensor], Tensor]


def pool(**options: Any) -> Pool:
    return lambda maps, boxes: visops.roi_align(maps, boxes, 3, sampling_ratio=2, **options)


def pool_levels(maps: Tensor, boxes: Tensor) -> Tensor:
    return visops.multiscale_roi_align([maps, maps[..., ::2, ::2]], boxes, 3, [1, 0.5])


PLAIN, ALIGNED = pool(), pool(aligned=True)
INVERTED = [[1, 6.0, 2, 3, 4], [0, 1.0, 7, 5, 2]]
# By the first cell: calls and boxes, each of which is invalid for each of the calls.
ROWS: dict[str, tuple[list[Pool], list[list[float]]]] = {
    "batch index negative, too large or not whole": (
        [PLAIN, ALIGNED, pool_levels],
        [[-1, 1.0, 1, 5, 5], [2, 1.0, 1, 5, 5], [0.5, 1.0, 1, 5, 5]],
    ),
    "NaN, infinite, or infinite once it is scaled": (
        [PLAIN, ALIGNED, pool(spatial_scale=2.0)],
        [[0, 1.0, NAN, 5, 5], [NAN, 1.0, 1, 5, 5], [0, 1.0, 1, INF, 5]],
    ),
    "x2 < x1 or y2 < y1, `aligned=False`": ([PLAIN], INVERTED),
    "x2 < x1 or y2 < y1, `aligned=True`, or with several levels": (
        [ALIGNED, pool_levels],
        INVERTED,
    ),
}
TOO_LARGE = [0, 1.0, 1, 3e38, 5]  # infinite once it is scaled by two


def cells() -> dict[str, tuple[str, str]]:
    lines = lines_of(DOCS / "roi_align.md", "| box | CPU | CUDA |\n|-|-|-|\n")
    rows = [line.strip("| ").split(" | ") for line in lines]
    return {row[0]: (row[1], row[2]) for row in rows}


def cases(row: str) -> list[tuple[Pool, list[float]]]:
    pools, boxes = ROWS[row]
    found = [(call, box) for call in pools for box in boxes]
    if "scaled" in row:
        found.append((pool(spatial_scale=2.0), TOO_LARGE))
    return found


def has_a_side_of_1(call: Pool, box: list[float]) -> bool:
    """Whether the box gives what one with a side of a pixel gives, in torchvision too."""
    index, x1, y1, x2, y2 = box
    least = torch.tensor([[index, x1, y1, max(x2, x1 + 1), max(y2, y1 + 1)]])
    found = call(MAPS, torch.tensor([box]))
    theirs = torchvision.ops.roi_align(MAPS, torch.tensor([box]), 3, 1.0, 2)
    torch.testing.assert_close(found, theirs, rtol=0, atol=1e-5)
    wider = torch.tensor([[index, x1, y1, max(x2, x1 + 2), max(y2, y1 + 2)]])
    return torch.equal(found, call(MAPS, least)) and not torch.equal(found, call(MAPS, wider))


def test_the_table_has_these_rows() -> None:
    assert list(cells()) == list(ROWS)
    assert {cell for row in cells().values() for cell in row} == {
        "an error",
        "an error that names the box",
        "that side is 1, as in torchvision",
        "that side is 1",
        "zeros, no gradient",
    }


@pytest.mark.parametrize("row", ROWS)
def test_on_the_cpu(row: str) -> None:
    says = cells()[row][0]
    for call, box in cases(row):
        if "side is 1" in says:
            assert has_a_side_of_1(call, box)
            continue
        with pytest.raises(RuntimeError, match=r"boxes\[1\]" if "names" in says else "boxes"):
            call(MAPS, torch.tensor([GOOD, box]))


@pytest.mark.cuda
@pytest.mark.parametrize("row", ROWS)
def test_on_cuda(row: str) -> None:
    says = cells()[row][1]
    for call, box in cases(row):
        maps = MAPS.cuda().requires_grad_()
        boxes = torch.tensor([GOOD, box], device="cuda", requires_grad=True)
        found = call(maps, boxes)
        of_maps, of_boxes = torch.autograd.grad(found.sum(), (maps, boxes))
        good = call(maps, boxes[:1])
        assert torch.equal(found[0], good[0])
        if "side is 1" in says:
            torch.testing.assert_close(found.cpu(), PLAIN(MAPS, torch.tensor([GOOD, box])))
        else:
            assert not found[1].any()
            assert not of_boxes[1].any()
            assert torch.equal(of_maps, torch.autograd.grad(good.sum(), maps)[0])
