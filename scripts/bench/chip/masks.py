"""Masks: pasting, measures, regions and distances."""

import contextlib
import functools
import importlib
from typing import Any

import torch
import torchvision
import visops
from bench.harness import Case, Contender, Tolerance
from torch import Tensor
from torchvision.models.detection.roi_heads import paste_masks_in_image

from .regions import IMAGE, proposals
from .rows import against_copy, count, nothing, row

CLOSE = Tolerance(max_abs=1e-5, why="quotients rounded in another order")
PASTED = Tolerance(mean_abs=0.02, why="torchvision rounds boxes to pixels")

ndimage: Any = None
with contextlib.suppress(ImportError):
    ndimage = importlib.import_module("cupyx.scipy.ndimage")


def discs(number: int, device: str) -> Tensor:
    """[N, 800, 1344] bools: twelve discs each."""
    torch.manual_seed(0)
    height, width = IMAGE
    y = torch.arange(height, device=device).view(-1, 1)
    x = torch.arange(width, device=device)
    masks = torch.zeros(number, height, width, dtype=torch.bool, device=device)
    for _ in range(12):
        position = torch.rand(number, 2, 1, 1) * torch.tensor([height, width]).view(2, 1, 1)
        row_of, column_of = position.to(device).unbind(1)
        radius = (10 + 60 * torch.rand(number, 1, 1)).to(device)
        masks |= (y - row_of) ** 2 + (x - column_of) ** 2 < radius**2
    return masks


def pasted(number: int, device: str) -> list[Contender]:
    torch.manual_seed(0)
    masks = torch.rand(number, 28, 28, device=device)
    boxes = proposals(number, 1, device)[:, 1:].contiguous()

    def theirs() -> Tensor:
        found: Tensor = paste_masks_in_image(masks[:, None], boxes, IMAGE)
        return found[:, 0] > 0.5

    return against_copy(
        device,
        masks,
        lambda: visops.paste_masks(masks, boxes, IMAGE, threshold=0.5),
        [Contender("torchvision", theirs, PASTED, floor=1.0)],
    )


def intersections(number: int, device: str) -> list[Contender]:
    masks = discs(number, device)

    def theirs() -> Tensor:
        flat = masks.flatten(1).float()
        both = flat @ flat.T
        areas = flat.sum(1)
        return (both / (areas[:, None] + areas - both)).to(torch.float32)

    def ours() -> Any:
        return visops.mask_iou(masks, masks).to(torch.float32)

    return against_copy(device, masks, ours, [Contender("matmul", theirs, CLOSE, floor=1.0)])


def boxed(number: int, device: str) -> list[Contender]:
    masks = discs(number, device)
    peer = Contender(
        "torchvision",
        lambda: torchvision.ops.masks_to_boxes(masks),
        Tolerance(max_abs=1.0, why="visops' boxes end behind the last pixel"),
        floor=1.0,
    )
    return against_copy(device, masks, lambda: visops.masks_to_boxes(masks), [peer])


def by_cupy(masks: Tensor, name: str) -> list[Contender]:
    """Its function, mask by mask, where CuPy is installed."""
    if ndimage is None:
        return []
    cupy = importlib.import_module("cupy")
    function = getattr(ndimage, name)

    def call() -> None:
        for mask in masks:
            function(cupy.from_dlpack(mask.to(torch.uint8)))

    return [Contender("CuPy", call, Tolerance(why="other labels"), floor=1.0, comparable=nothing)]


def alone(name: str, number: int, device: str) -> list[Contender]:
    """A function of masks."""
    masks = discs(number, device)
    peers = {"connected_components": "label", "distance_transform": "distance_transform_edt"}
    function = getattr(visops, name)
    theirs = by_cupy(masks, peers[name]) if name in peers else []
    return against_copy(device, masks, lambda: function(masks), theirs, comparable=nothing)


def cases(device: str, share: float) -> list[Case]:
    """Every row; `share` of the usual numbers of masks."""
    one = functools.partial(row, device=device)
    hundred = count(100, share)
    few = count(16, share)
    return [
        one("masks", f"paste_masks, {hundred} of 28² → 800×1344", pasted, hundred),
        one("masks", f"masks_to_boxes, {hundred} of 800×1344", boxed, hundred),
        one("masks and matmul", f"mask_iou, {hundred}² of 800×1344", intersections, hundred),
        *(
            one("masks and CuPy", f"{name}, {few} of 800×1344", alone, name, few)
            for name in ("connected_components", "distance_transform", "masks_to_rle")
        ),
    ]
