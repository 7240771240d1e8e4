"""Samples that can't be transformed: each row is a sample and the message it must give."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check, table
from torch import Tensor
from visops import transforms as T
from visops.transforms.sample.images import image_sizes
from visops.transforms.sample.split import split_sample

tv = pytest.importorskip("torchvision.tv_tensors")

NAN, INF = float("nan"), float("inf")
IMAGE = torch.zeros(3, 5, 7)
BATCH = torch.zeros(2, 3, 5, 7)
SIZE = (5, 7)


@dataclasses.dataclass
class Record:
    boxes: Any = None

    __hash__ = object.__hash__


class Slotted:
    __slots__ = ("inner",)

    def __init__(self) -> None:
        self.inner = [3, {"picture": IMAGE}]


def split(sample: Any, **options: Any) -> Callable[[], Any]:
    def call() -> Any:
        leaves, _ = split_sample(sample, **options)
        return image_sizes(leaves)

    return call


def having(**entries: Any) -> Callable[[], Any]:
    return split({"image": IMAGE, **entries})


def batch_having(**entries: Any) -> Callable[[], Any]:
    return split({"image": BATCH, **entries})


def boxes(*rows: Any) -> Tensor:
    return torch.tensor(rows)


GOOD = boxes([0.0, 0, 1, 1], [2.0, 2, 3, 3])


@table(
    (TypeError, "transforms: found no image in the sample, a dict; must be", split({"a": 1})),
    (TypeError, "transforms: found no image in the sample, a NoneType; must be", split(None)),
    (TypeError, "transforms: sample['image'] is 3, must be an image", split({"image": 3})),
    (
        ValueError,
        "transforms: the sample has shape [5, 7], must be an image [C, H, W] or [H, W, C], or a "
        "batch of them",
        split(torch.zeros(5, 7)),
    ),
    (
        ValueError,
        "transforms: sample['image'] has shape [7], must be an image",
        split({"image": torch.zeros(7)}),
    ),
    (
        ValueError,
        "transforms: sample['image'] has shape [3, 5, 7], must be [..., T, C, H, W]",
        split({"image": tv.Video(torch.zeros(1, 3, 5, 7))[0].as_subclass(tv.Video)}),
    ),
    (
        ValueError,
        "transforms: sample['images'] is empty, must hold at least one image",
        split({"images": []}),
    ),
    (
        ValueError,
        "transforms: sample['images'][1] has shape [2, 3, 5, 7], must be one image",
        split({"images": [IMAGE, BATCH]}),
    ),
    (
        ValueError,
        "transforms: the sample mixes [C, H, W] and [H, W, C], must be all the same",
        split([IMAGE, torch.zeros(5, 7, 3)]),
    ),
    (
        TypeError,
        "transforms: sample['images'][1] is a str, must be an image: a tensor, an array or a PIL",
        split({"images": [IMAGE, "b"]}),
    ),
    (
        ValueError,
        "transforms: sample['image'] holds one image, sample['img'] holds 2 images; must be",
        split({"image": IMAGE, "img": BATCH}),
    ),
    (
        ValueError,
        "transforms: sample['img'] is for 7 rows and 5 columns, sample['image'] has 5 and 7; must "
        "be the same",
        split({"image": IMAGE, "img": IMAGE.transpose(1, 2)}),
    ),
    (
        TypeError,
        "transforms: sample['image'][0] is a Mask, must be an Image or Video",
        split({"image": [tv.Mask(torch.zeros(5, 7))]}),
    ),
)
def test_images(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(
    (
        TypeError,
        "transforms: sample['depth'] is a plain Tensor of shape [5, 7], which may have to move "
        "with the image; must be a tv_tensor, or in a dict under a name that says what it is",
        having(depth=torch.zeros(5, 7)),
    ),
    (
        TypeError,
        "transforms: sample[1] is a plain ndarray of shape [5, 7], which may",
        split((IMAGE, np.zeros((5, 7)))),
    ),
    # Points, boxes, and maps of the image's aspect ratio, alone and in a batch.
    (TypeError, "transforms: sample['a'] is a plain Tensor of", having(a=torch.zeros(9, 2))),
    (TypeError, "transforms: sample['a'] is a plain Tensor of", having(a=torch.zeros(1, 8, 3))),
    (TypeError, "transforms: sample['a'] is a plain Tensor of", having(a=torch.zeros(9, 4))),
    (TypeError, "transforms: sample['a'] is a plain Tensor of", having(a=torch.zeros(15, 21))),
    (TypeError, "transforms: sample['a'] is a plain ndarray of", having(a=np.zeros((9, 10, 14)))),
    (TypeError, "transforms: sample['a'] is a plain ndarray of", having(a=np.zeros((5, 7, 9)))),
    (
        TypeError,
        "transforms: sample['a'] is a plain Tensor of shape [2, 5, 7]",
        batch_having(a=torch.zeros(2, 5, 7)),
    ),
    (
        TypeError,
        "transforms: sample[0] is a plain Tensor of shape [4, 4], which may",
        split((torch.zeros(4, 4), 3)),
    ),
    (
        TypeError,
        "transforms: sample[1][1] is a plain Tensor of shape [5, 7], which may",
        split([(IMAGE, 3), (3, torch.zeros(5, 7))]),
    ),
    (
        TypeError,
        "transforms: sample['rows'] is a list of lists of numbers, which may",
        having(rows=[[1, 2], [3, 4]]),
    ),
    (
        TypeError,
        "transforms: sample['annotations'][0]['bbox'] can't be moved in this form; must be boxes "
        "[N, 4], key points [..., 2] or masks [N, H, W] under a name that says so",
        having(annotations=[{"bbox": [1, 2, 3, 4], "category_id": 5}]),
    ),
    (TypeError, "transforms: sample['segmentation'] can't", having(segmentation={"counts": b""})),
    (
        TypeError,  # torchvision's VOCDetection
        "transforms: sample['annotation']['object'][0]['bndbox'] can't be moved in this form",
        having(annotation={"object": [{"name": "cat", "bndbox": {"xmin": "3", "ymax": "9"}}]}),
    ),
    (TypeError, "transforms: sample['landmarks'] can't", having(landmarks=torch.zeros(10))),
    (
        TypeError,
        "transforms: sample['target'] is a Record, whose boxes may have to move with the image",
        having(target=Record(GOOD)),
    ),
    (
        TypeError,
        "transforms: sample['target'] is a Slotted, whose inner[1].picture may have to move",
        having(target=Slotted()),
    ),
    (
        TypeError,
        "transforms: sample['set'] is a frozenset, whose boxes may have to move",
        having(set=frozenset([Record(GOOD)])),
    ),
    (TypeError, "transforms: sample['boxes'] is 'a', must be boxes [N, 4]", having(boxes="a")),
    (
        TypeError,
        "transforms: sample['boxes'] is a Record, must be boxes [N, 4]",
        having(boxes=Record()),
    ),
    (
        TypeError,
        "transforms: sample['mask'][0] is a Record, must be [H, W], [N, H, W] or [H, W, N]",
        batch_having(mask=[Record(), Record()]),
    ),
    (
        ValueError,
        "transforms: keys names the kind 'bbox', must be one of image, mask, masks, boxes, "
        "keypoints, polygons, labels, other",
        split({"image": IMAGE}, keys={"bbox": ["a"]}),
    ),
    (
        TypeError,
        "transforms: keys['mask'] is 'seg', must be a list of names",
        split({"image": IMAGE}, keys={"mask": "seg"}),
    ),
)
def test_no_possible_target_is_silently_left_behind(
    error: type[Exception], message: str, call: Callable[[], Any]
) -> None:
    check(error, message, call)


@table(
    (
        ValueError,
        "transforms: sample['boxes'] has shape [2, 5], must be [N, 4]",
        having(boxes=torch.zeros(2, 5)),
    ),
    (
        ValueError,
        "transforms: sample['boxes'] has shape [4], must be [N, 4]",
        having(boxes=torch.zeros(4)),
    ),
    (
        ValueError,
        "transforms: sample['boxes'] can't be read as [N, 4]: ",
        having(boxes=[[1, 2, 3, 4], [1, 2]]),
    ),
    (
        TypeError,
        "transforms: sample['boxes'] has dtype <U1, must be floating or signed integers",
        having(boxes=[["1", "2", "3", "4"]]),
    ),
    (
        TypeError,
        "transforms: sample['boxes'] has dtype torch.uint8, must be floating or signed integers",
        having(boxes=torch.zeros(2, 4, dtype=torch.uint8)),
    ),
    (
        ValueError,
        "transforms: sample['boxes'][1] is [3, 0, 2, 1] (XYXY), must have x1 <= x2 and y1 <= y2 "
        "(for other formats see box_format=)",
        having(boxes=boxes([0.0, 0, 1, 1], [3.0, 0, 2, 1], [3.0, 0, 2, 1])),
    ),
    (
        ValueError,
        "transforms: sample['boxes'][0] is [0, nan, 1, 1] (XYXY), must be finite",
        having(boxes=boxes([0.0, NAN, 1, 1])),
    ),
    (
        ValueError,
        "transforms: sample['boxes'][0] is [0, 0, inf, 1] (XYXY), must be finite",
        having(boxes=boxes([0.0, 0, INF, 1]).bfloat16()),
    ),
    (
        ValueError,
        "transforms: sample['boxes'][0] is [3, 3, -1, 2] (XYWH), must have a width and a height of "
        "at least 0",
        having(boxes=tv.BoundingBoxes([[3, 3, -1, 2]], format="XYWH", canvas_size=SIZE)),
    ),
    (
        ValueError,
        "transforms: sample['boxes'][0] is [3, 3, -1, 2, 5] (XYWHR), must have a width and a "
        "height of at least 0",
        having(boxes=tv.BoundingBoxes([[3.0, 3, -1, 2, 5]], format="XYWHR", canvas_size=SIZE)),
    ),
    (
        ValueError,
        "transforms: sample['boxes'] is for 7 rows and 5 columns, sample['image'] has 5 and 7",
        having(boxes=tv.BoundingBoxes([[3.0, 3, 4, 4]], format="XYXY", canvas_size=(7, 5))),
    ),
    (
        ValueError,
        "transforms: sample['labels'] has length 3, sample['boxes'] has 2 boxes; must be the same",
        having(boxes=GOOD, labels=torch.zeros(3)),
    ),
    (
        ValueError,
        "transforms: sample['labels'] has length 1, sample['boxes'] has 2 boxes",
        having(labels=["a"], boxes=GOOD),
    ),
    (
        ValueError,
        "transforms: sample['masks'] has length 1, sample['boxes'] has 2 boxes",
        having(boxes=GOOD, masks=torch.zeros(1, 5, 7)),
    ),
    (
        ValueError,
        "transforms: sample['keypoints'] has length 3, sample['boxes'] has 2 boxes",
        having(boxes=GOOD, keypoints=torch.zeros(3, 5, 2)),
    ),
    (
        ValueError,
        "transforms: sample['mask'] is for 7 rows and 5 columns, sample['image'] has 5 and 7",
        having(mask=torch.zeros(7, 5)),
    ),
    (
        ValueError,
        "transforms: sample['mask'] has shape [1, 1, 5, 7], must be [H, W], [N, H, W] or [H, W, N]",
        having(mask=torch.zeros(1, 1, 5, 7)),
    ),
    (
        TypeError,
        "transforms: sample['mask'] has dtype torch.complex64, must be numbers",
        having(mask=torch.zeros(5, 7, dtype=torch.complex64)),
    ),
    (
        ValueError,
        "transforms: sample['keypoints'] has shape [2, 4], must be [..., 2], or [..., 3] with "
        "visibilities",
        having(keypoints=torch.zeros(2, 4)),
    ),
    (
        TypeError,
        "transforms: sample['keypoints'] has dtype uint8, must be floating or signed integers",
        having(keypoints=np.zeros((2, 2), np.uint8)),
    ),
    (
        ValueError,
        "transforms: sample['keypoints_visible'] has shape [3], must be that of "
        "sample['keypoints'] without its last dimension: [2]",
        having(keypoints=torch.zeros(2, 2), keypoints_visible=torch.ones(3)),
    ),
)
def test_targets(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@pytest.mark.parametrize("kind", ["mask", "masks"])
@pytest.mark.parametrize("name", ["flow", "Normals", "optical_flow", "surface_normals"])
def test_vectors_are_refused_as_masks(kind: str, name: str) -> None:
    with pytest.raises(ValueError, match=rf"keys\['{kind}'\] names '{name}': .* vectors turn"):
        T.Compose([T.RandomHorizontalFlip()], keys={kind: ["seg", name]})


def test_other_kinds_and_names_are_taken() -> None:
    T.Compose([T.RandomHorizontalFlip()], keys={"mask": ["depth"], "other": ["flow"]})
