"""Masks resized to the image, and to run lengths and back."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torchvision.models.detection.roi_heads import paste_masks_in_image
from visops.infer import Preprocess, run_lengths
from visops.infer.models.masks import columns_of_runs, masks_in_image


def sizes_that_round_below_zero() -> list[tuple[int, int]]:
    """Whole images, of which rounding might leave a part unseen."""
    preprocess = Preprocess((224, 224))
    every = ((90, width) for width in range(100, 1500))
    return list(itertools.islice((s for s in every if preprocess.placement(*s).left < 0), 3))


@pytest.mark.parametrize("size", sizes_that_round_below_zero())
def test_rounding_hides_nothing(size: tuple[int, int]) -> None:
    placement = Preprocess((224, 224)).placement(*size)
    (found,) = masks_in_image(torch.full((1, 28, 28), 0.6), placement)
    assert found.shape == (1, *size)
    torch.testing.assert_close(found, torch.full_like(found, 0.6))


def test_masks_end_at_the_edge_of_the_input() -> None:
    """Values end within a pixel of the image, though a pixel of the mask is ten of them."""
    placement = Preprocess((32, 32), "crop", crop=1.0).placement(80, 160)
    (found,) = masks_in_image(torch.full((1, 8, 8), 0.6), placement, outside=0.0)
    seen = (found[0] > 0.5).numpy()
    wanted = np.zeros((80, 160), bool)
    wanted[:, 40:120] = True
    np.testing.assert_array_equal(seen, wanted)


@pytest.mark.parametrize("fit", ["stretch", "letterbox"])
def test_masks_are_pasted_as_by_torchvision(fit: str) -> None:
    """Ours are resized from the size of the input, torchvision's directly to the image."""
    generator = torch.Generator().manual_seed(0)
    smooth = torch.rand(4, 1, 5, 5, generator=generator)
    masks = torch.nn.functional.interpolate(smooth, (28, 28), mode="bicubic").clamp(0, 1)
    height, width = 150, 200
    placement = Preprocess((96, 96), fit).placement(height, width)
    boxes = torch.tensor([[20.0, 30, 180, 120], [0, 0, 90, 149], [50, 0, 199, 60], [5, 5, 60, 60]])
    shift = torch.tensor([placement.left, placement.top] * 2)
    scale = torch.tensor([placement.scale_x, placement.scale_y] * 2)
    at_input = paste_masks_in_image(masks, boxes * scale + shift, (96, 96))[:, 0]
    found = torch.cat(list(masks_in_image(at_input, placement))) > 0.5
    wanted = paste_masks_in_image(masks, boxes, (height, width))[:, 0] > 0.5
    both = (found & wanted).sum((1, 2))
    either = (found | wanted).sum((1, 2))
    assert (wanted.sum((1, 2)) > 500).all()
    # torchvision rounds boxes to pixels: here at the input, there at the image.
    assert (both / either > 0.88).all(), both / either


@pytest.mark.parametrize(
    "mask",
    [
        np.zeros((3, 4)),
        np.ones((3, 4)),
        np.eye(4)[:, ::-1],
        np.pad(np.ones((2, 3)), ((1, 2), (2, 4))),
        np.pad(np.ones((5, 1)), ((0, 0), (3, 0))),
        np.random.default_rng(0).random((17, 9)) < 0.3,
    ],
)
def test_run_lengths_and_back(mask: Any) -> None:
    lengths = run_lengths(torch.from_numpy(np.ascontiguousarray(mask)))
    height, width = lengths["size"]
    first, part = columns_of_runs(lengths["counts"], height)
    found = np.zeros((height, width), bool)
    found[:, first : first + part.shape[1]] = part
    np.testing.assert_array_equal(found, mask)
    used = np.flatnonzero(np.any(mask, 0))
    assert part.shape[1] == (used[-1] - used[0] + 1 if len(used) else 0)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (3, 70), (70, 3)])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.int64])
def test_run_lengths_of_any_dtype(shape: tuple[int, int], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    for share in (0.0, 0.5, 1.0):
        mask = (torch.rand(shape, generator=generator) < share).to(dtype)
        flat = (mask != 0).t().flatten().tolist()
        counts, value = [0], False
        for pixel in flat:
            if pixel != value:
                counts.append(0)
                value = pixel
            counts[-1] += 1
        assert run_lengths(mask) == {"size": list(shape), "counts": counts}


def test_run_lengths_are_of_one_mask() -> None:
    message = r"run_lengths: mask has shape \[1, 2, 3\], must be \[H, W\]"
    with pytest.raises(ValueError, match=message):
        run_lengths(torch.zeros(1, 2, 3))
