"""Batches in the form that YOLO's losses take."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from ..._torch.options import SampleBoxFormat
from ..arguments import one_of
from ..chain.operators import Pixels
from ..sample.batches import as_batch
from ..sample.images import sizes_of
from ..sample.leaf import BOX_FORMATS, Leaf, Reading
from ..sample.split import split_sample
from ..targets.polygons import ROTATED
from ..targets.rows import from_corners, rows_of, to_corners

_OWNER = "collate_yolo"
_CLASSES = ("labels", "cls", "class_labels", "class_ids", "category_id", "category_ids")


def collate_yolo(
    samples: Sequence[Any],
    *,
    box_format: SampleBoxFormat = "xyxy",
    keys: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Tensor, Tensor]:
    """Stack images, and put the boxes of all of them into one tensor.

    It is for the `collate` of a :class:`Loader`, or the ``collate_fn`` of a ``DataLoader``; with
    another format of boxes, ``functools.partial(collate_yolo, box_format="yolo")``.

    Parameters
    ----------
    samples : sequence
        Transformed samples, each with an image, all of one size, boxes, and a class for each.
    box_format : {"xyxy", "xywh", "cxcywh", "yolo", "albumentations"}
        As for :class:`Compose`.
    keys : mapping of str to sequence of str, optional
        As for :class:`Compose`.

    Returns
    -------
    images : Tensor ``[B, C, H, W]``
        With the dtype that they have.
    targets : Tensor, float32 ``[N, 6]``
        For each box the number of its image in the batch, its class, and its centre x, y, width and
        height as shares of the image's sides: what ultralytics' and YOLOv5's losses take.

    Raises
    ------
    TypeError, ValueError
        A sample has not one image, one set of boxes and classes for them; boxes are rotated;
        classes are no whole numbers; images differ in size.

    Examples
    --------
    >>> import torch
    >>> from visops import transforms
    >>> boxes = torch.tensor([[10.0, 20, 30, 60]])
    >>> sample = {"image": torch.zeros(3, 80, 100), "boxes": boxes, "labels": torch.tensor([7])}
    >>> images, targets = transforms.collate_yolo([sample, sample])
    >>> targets
    tensor([[0.0000, 7.0000, 0.2000, 0.5000, 0.2000, 0.5000],
            [1.0000, 7.0000, 0.2000, 0.5000, 0.2000, 0.5000]])
    """
    one_of(_OWNER, "box_format", box_format, tuple(BOX_FORMATS))
    reading = Reading(box_format=box_format)
    leaves, _ = as_batch(samples, lambda sample: split_sample(sample, keys, reading))
    image, boxes = (_only(leaves, kind) for kind in ("image", "boxes"))
    if boxes.format in ROTATED:
        _fail(f"{boxes.name} are of format {boxes.format}, must be upright", TypeError)
    sizes = sizes_of(image)
    if (sizes != sizes[0]).any():
        other = int(np.argmax((sizes != sizes[0]).any(1)))
        first, second = (f"{height} x {width}" for height, width in sizes[[0, other]].tolist())
        _fail(f"sample 0 has an image of {first}, sample {other} of {second}; must be of one size")
    rows, owners, _ = rows_of(boxes.value, boxes.batch, 4)
    rows = torch.as_tensor(rows)
    sides = torch.from_numpy(sizes[:1, [1, 0, 1, 0]]).to(rows)
    targets = from_corners(to_corners(rows, boxes.format), "CXCYWH") / sides
    numbers = torch.from_numpy(owners).to(rows)[:, None]
    classes = _classes(leaves, boxes).to(rows)[:, None]
    images = torch.stack(list(Pixels(image).tensors(image)))
    return images, torch.cat([numbers, classes, targets], 1).float()


def _only(leaves: Sequence[Leaf], kind: str) -> Leaf:
    found = [leaf for leaf in leaves if leaf.kind == kind]
    if len(found) != 1:
        what = "image" if kind == "image" else "set of boxes"
        _fail(f"a sample has {len(found)} of kind {kind!r}, must have one {what}")
    return found[0]


def _classes(leaves: Sequence[Leaf], boxes: Leaf) -> Tensor:
    """Return the class of each box, in float64."""
    named = {leaf.key: leaf for leaf in leaves if leaf.per_box and leaf.kind == "labels"}
    others = [key for key in named if key not in ("scores", "iscrowd", "difficult")]
    key = next((key for key in (*_CLASSES, *others) if key in named), None)
    if key is None:
        _fail(f"no classes are beside {boxes.name}, must be under 'labels', or a name in keys")
    values = [value.cpu() if isinstance(value, Tensor) else value for value in named[key].value]
    arrays = [np.asarray(value) for value in values if len(value) > 0]
    for array in arrays:
        if array.ndim != 1 or array.dtype.kind not in "biuf" or (array != np.floor(array)).any():
            _fail(f"{named[key].name} must be a whole number for each box", TypeError)
    return torch.from_numpy(np.concatenate([np.zeros(0), *arrays]))


def _fail(problem: str, error: type[Exception] = ValueError) -> NoReturn:
    raise error(f"visops.transforms.{_OWNER}: {problem}")
