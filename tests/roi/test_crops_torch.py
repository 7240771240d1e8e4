"""Crops and pasting as torch sees them: opcheck, compile, vmap, torch.func, fake tensors."""

import torch
import visops
from torch import Tensor
from warp.affine_cases import LAYOUTS

from roi.crops_cases import all_boxes, images_of, paste_options

OPS = torch.ops.visops


def problem(
    dtype: torch.dtype = torch.float32, layout: str = "contiguous", blend: str = "replace"
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return images, patches, boxes and, if the blend needs it, alpha."""
    boxes = all_boxes()
    images = LAYOUTS[layout](images_of(dtype))
    patches = LAYOUTS[layout](images_of(dtype, 1, (len(boxes), 3, 5, 6)))
    double = torch.float64 if dtype == torch.float64 else torch.float32
    alpha = paste_options(blend, patches, dtype=double).get("alpha")
    return images, patches, boxes, alpha


def test_defaults_of_the_operators() -> None:
    images, patches, boxes, _ = problem()
    assert torch.equal(OPS.crop_rois(images, boxes, [5, 5]), visops.crop_rois(images, boxes, 5))
    found = OPS.paste_rois(images, patches, boxes)
    assert torch.equal(found, visops.paste_rois(images, patches, boxes))
    found = OPS.paste_rois(images, patches, boxes, None, "feather")
    assert torch.equal(found, visops.paste_rois(images, patches, boxes, blend="feather"))
