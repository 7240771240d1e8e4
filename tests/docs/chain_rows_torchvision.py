"""What rows of docs/moving.md on torchvision's chains say; see chain_rows.py."""

import importlib
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision import tv_tensors as tv
from torchvision.transforms import v2
from visops import transforms as T

from docs.chain_rows import BOXES, IMAGE, MASK, PHOTO, Pair


def only_here(name: str) -> Pair:
    return [hasattr(T, name), hasattr(v2, name)], [True, False]


def frames() -> Pair:
    clip = torch.stack([IMAGE] * 4)
    torch.manual_seed(0)
    theirs = v2.RandomRotation(80)(clip)
    assert all(torch.equal(theirs[0], frame) for frame in theirs)
    turns = [T.Compose([T.RandomRotation(80)], per_frame=p, seed=0)(clip) for p in (True, False)]
    assert not torch.equal(turns[0][0], turns[0][1])
    return turns[1], turns[1][:1].expand(4, -1, -1, -1)


def leading_dimensions() -> Pair:
    images = torch.stack([IMAGE] * 6).unflatten(0, (2, 3))
    theirs = v2.RandomHorizontalFlip(1.0)(images)
    alone = T.Compose([T.RandomRotation(80)], seed=0)(images, index=range(6))
    shared = T.Compose([T.RandomRotation(80)], seed=0, per_frame=False)(images, index=range(2))
    assert not torch.equal(alone[0, 0], alone[0, 1])
    assert torch.equal(shared[0, 0], shared[0, 1])
    assert not torch.equal(shared[0, 0], shared[1, 0])
    return T.RandomHorizontalFlip(1.0)(images), theirs


def wide_integers() -> Pair:
    image = torch.arange(2**31 - 4096, 2**31)[:3072].to(torch.int32).reshape(3, 32, 32)
    values = {0, *image.unique().tolist()}
    assert set(T.RandomRotation((30, 30), "nearest")(image).unique().tolist()) <= values
    theirs = v2.RandomRotation((30, 30))(image)
    assert not set(theirs.unique().tolist()) <= values  # rounded to floats of 24 bits
    scaled = v2.ToDtype(torch.float64, scale=True)(image)
    assert torch.equal(T.Compose([T.ToDtype(torch.float32, scale=True)])(image), scaled.float())
    turned = T.RandomRotation((90, 90))(image)
    return turned, v2.RandomRotation((90, 90))(image)


def fills_by_type() -> Pair:
    fill = {tv.Image: 0, tv.Mask: 255}
    typed = {"image": tv.Image(IMAGE), "mask": tv.Mask(torch.from_numpy(MASK))}
    plain = {"image": PHOTO, "mask": MASK}
    theirs = v2.Pad(4, fill=fill)(typed)["mask"]
    same = T.Pad(4, fill=fill)(typed)["mask"]
    other = T.Compose([T.Pad(4)], mask_fill=255)(plain)["mask"]
    floats = typed | {"mask": tv.Mask(torch.from_numpy(MASK).float())}
    assert torch.equal(T.Pad(4, fill=fill)(floats)["mask"], v2.Pad(4, fill=fill)(floats)["mask"])
    return np.stack([same, other]), np.stack([theirs, theirs])


def clamped_boxes() -> Pair:
    def moved(chain: Any, mode: str | None) -> Tensor:
        boxes = tv.BoundingBoxes(BOXES, format="XYXY", canvas_size=(60, 80), clamping_mode=mode)
        return chain({"image": tv.Image(IMAGE), "boxes": boxes})["boxes"].as_subclass(Tensor)

    ours = [
        moved(T.Compose([T.CenterCrop(30)], boxes=boxes), "soft") for boxes in ("keep", "clamp")
    ]
    ours.append(moved(T.Compose([v2.CenterCrop(30)]), "hard"))
    theirs = [moved(v2.CenterCrop(30), mode) for mode in (None, "hard", "hard")]
    return torch.stack(ours), torch.stack(theirs)


def lists_of_transforms() -> Pair:
    found = []
    for m in (T, v2):
        inner = m.Compose([m.Pad(1), m.Pad(2)])
        chain = m.Compose([inner])
        chain.transforms.append(m.RandomHorizontalFlip(1))
        found.append((chain(IMAGE), len(chain.transforms)))
    assert [count for _, count in found] == [3, 2]  # flattened here
    return found[0][0], found[1][0]


def older_transforms() -> Pair:
    v1 = importlib.import_module("torchvision.transforms")
    chain = T.Compose([T.Pad(1), v1.RandomHorizontalFlip(1)])
    with pytest.raises(TypeError, match="RandomHorizontalFlip"):
        chain({"image": IMAGE, "boxes": torch.from_numpy(BOXES)})
    return chain(IMAGE), v1.RandomHorizontalFlip(1)(v1.Pad(1)(IMAGE))
