"""Samples, batches and options that can't work: each row is one and the message it must give."""

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
from visops.transforms.targets.move import visible
from visops.transforms.targets.options import TargetOptions, check_options

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


def boxes(*rows: Any) -> Tensor:
    return torch.tensor(rows)


GOOD = boxes([0.0, 0, 1, 1], [2.0, 2, 3, 3])
Entries = dict[str, Any]


def entries_table(*rows: tuple[type[Exception], str, Entries]) -> Any:
    """Parametrise a test over samples whose last entry is wrong, and what is said behind it."""
    ids = [f"{[*entries][-1]}{message[:50]}" for _, message, entries in rows]
    return pytest.mark.parametrize(("error", "message", "entries"), rows, ids=ids)


def typed(rows: Any, form: str = "XYXY", size: tuple[int, int] = SIZE) -> Any:
    return tv.BoundingBoxes(rows, format=form, canvas_size=size)


def check_entries(error: type[Exception], message: str, entries: Entries, image: Tensor) -> None:
    wrong = f"transforms: sample['{[*entries][-1]}']{message}"
    check(error, wrong, split({"image": image, **entries}))


@table(
    (TypeError, "transforms: found no image in the sample, a dict; must be", split({"a": 1})),
    (TypeError, "transforms: found no image in the sample, a NoneType; must be", split(None)),
    (TypeError, "transforms: sample['image'] is 3, must be an image", split({"image": 3})),
    (
        TypeError,
        "transforms: found no image in the sample, a str; must be an image, or hold one under a "
        "known name (see keys=) or as a tv_tensor (DecodeJpeg, first in a chain, takes files and "
        "their paths)",
        split("photo.jpg"),
    ),
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


PLAIN = " is a plain Tensor of shape"
NUMBERS = "must be floating or signed integers"


@entries_table(
    (
        TypeError,
        f"{PLAIN} [5, 7], which may have to move with the image; must be a tv_tensor, or in a dict "
        "under a name that says what it is",
        {"depth": torch.zeros(5, 7)},
    ),
    # Points, boxes, and maps of the image's aspect ratio.
    (TypeError, PLAIN, {"a": torch.zeros(9, 2)}),
    (TypeError, PLAIN, {"a": torch.zeros(1, 8, 3)}),
    (TypeError, PLAIN, {"a": torch.zeros(9, 4)}),
    (TypeError, PLAIN, {"a": torch.zeros(15, 21)}),
    (TypeError, " is a plain ndarray of", {"a": np.zeros((9, 10, 14))}),
    (TypeError, " is a plain ndarray of", {"a": np.zeros((5, 7, 9))}),
    (TypeError, " is a list of lists of numbers, which may", {"rows": [[1, 2], [3, 4]]}),
    (
        TypeError,
        "[0]['bbox'] can't be moved in this form; must be boxes [N, 4], key points [..., 2] or "
        "masks [N, H, W] under a name that says so",
        {"annotations": [{"bbox": [1, 2, 3, 4], "category_id": 5}]},
    ),
    (TypeError, " can't", {"segmentation": {"counts": b""}}),
    (TypeError, " has layout sparse_coo, must be dense", {"mask": torch.eye(5, 7).to_sparse()}),
    (
        TypeError,  # torchvision's VOCDetection
        "['object'][0]['bndbox'] can't be moved in this form",
        {"annotation": {"object": [{"name": "cat", "bndbox": {"xmin": "3", "ymax": "9"}}]}},
    ),
    (TypeError, " can't", {"landmarks": torch.zeros(10)}),
    (
        TypeError,
        " is a Record, whose boxes may have to move with the image",
        {"target": Record(GOOD)},
    ),
    (TypeError, " is a Slotted, whose inner[1].picture may have to move", {"target": Slotted()}),
    (
        TypeError,
        " is a frozenset, whose boxes may have to move",
        {"set": frozenset([Record(GOOD)])},
    ),
    (TypeError, " is 'a', must be boxes [N, 4]", {"boxes": "a"}),
    (TypeError, " is a Record, must be boxes [N, 4]", {"boxes": Record()}),
)
def test_no_possible_target_is_silently_left_behind(
    error: type[Exception], message: str, entries: Entries
) -> None:
    check_entries(error, message, entries, IMAGE)


@table(
    (
        TypeError,
        "transforms: sample[1] is a plain ndarray of shape [5, 7], which may",
        split((IMAGE, np.zeros((5, 7)))),
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
        ValueError,
        "transforms: sample['labels'] has length 1, sample['boxes'] has 2 boxes",
        split({"image": IMAGE, "labels": ["a"], "boxes": GOOD}),
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
def test_tuples_and_keys(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@entries_table(
    (ValueError, " has shape [2, 5], must be [N, 4]", {"boxes": torch.zeros(2, 5)}),
    (ValueError, " has shape [4], must be [N, 4]", {"boxes": torch.zeros(4)}),
    (
        ValueError,
        " has shape [5, 2, 4], must be [N, 4]; flatten those of a video's frames: boxes.reshape(-1",
        {"boxes": torch.zeros(5, 2, 4)},
    ),
    (ValueError, " can't be read as [N, 4]: ", {"boxes": [[1, 2, 3, 4], [1, 2]]}),
    (TypeError, f" has dtype <U1, {NUMBERS}", {"boxes": [["1", "2", "3", "4"]]}),
    (
        TypeError,
        f" has dtype torch.uint8, {NUMBERS}",
        {"boxes": torch.zeros(2, 4, dtype=torch.uint8)},
    ),
    (
        ValueError,
        "[1] is [3, 0, 2, 1] (XYXY), must have x1 <= x2 and y1 <= y2 (for other formats see "
        "box_format=)",
        {"boxes": boxes([0.0, 0, 1, 1], [3.0, 0, 2, 1], [3.0, 0, 2, 1])},
    ),
    (
        ValueError,
        "[0] is [0, nan, 1, 1] (XYXY), must be finite",
        {"boxes": boxes([0.0, NAN, 1, 1])},
    ),
    (
        ValueError,
        "[0] is [0, 0, inf, 1] (XYXY), must be finite",
        {"boxes": boxes([0.0, 0, INF, 1]).bfloat16()},
    ),
    (
        ValueError,
        "[0] is [3, 3, -1, 2] (XYWH), must have a width and a height of at least 0",
        {"boxes": typed([[3, 3, -1, 2]], "XYWH")},
    ),
    (
        ValueError,
        "[0] is [3, 3, -1, 2, 5] (XYWHR), must have a width and a height of at least 0",
        {"boxes": typed([[3.0, 3, -1, 2, 5]], "XYWHR")},
    ),
    (
        ValueError,
        " is for 7 rows and 5 columns, sample['image'] has 5 and 7",
        {"boxes": typed([[3.0, 3, 4, 4]], size=(7, 5))},
    ),
    (
        ValueError,
        " has length 3, sample['boxes'] has 2 boxes; must be the same",
        {"boxes": GOOD, "labels": torch.zeros(3)},
    ),
    (
        ValueError,
        " has length 1, sample['boxes'] has 2 boxes",
        {"boxes": GOOD, "masks": torch.zeros(1, 5, 7)},
    ),
    (
        ValueError,
        " has length 3, sample['boxes'] has 2 boxes",
        {"boxes": GOOD, "keypoints": torch.zeros(3, 5, 2)},
    ),
    (
        ValueError,
        " is for 7 rows and 5 columns, sample['image'] has 5 and 7",
        {"mask": torch.zeros(7, 5)},
    ),
    (
        ValueError,
        " has shape [1, 1, 5, 7], must be [H, W], [N, H, W] or [H, W, N]",
        {"mask": torch.zeros(1, 1, 5, 7)},
    ),
    (
        TypeError,
        " has dtype torch.complex64, must be numbers",
        {"mask": torch.zeros(5, 7, dtype=torch.complex64)},
    ),
    (
        ValueError,
        " has shape [2, 4], must be [..., 2], or [..., 3] with visibilities",
        {"keypoints": torch.zeros(2, 4)},
    ),
    (TypeError, f" has dtype uint8, {NUMBERS}", {"keypoints": np.zeros((2, 2), np.uint8)}),
    (
        ValueError,
        " has shape [3], must be that of sample['keypoints'] without its last dimension: [2]",
        {"keypoints": torch.zeros(2, 2), "keypoints_visible": torch.ones(3)},
    ),
)
def test_targets(error: type[Exception], message: str, entries: Entries) -> None:
    check_entries(error, message, entries, IMAGE)


HOLDS = "sample['image'] holds 2 images"


@entries_table(
    (TypeError, f"{PLAIN} [2, 5, 7]", {"a": torch.zeros(2, 5, 7)}),
    (
        TypeError,
        "[0] is a Record, must be [H, W], [N, H, W] or [H, W, N]",
        {"mask": [Record(), Record()]},
    ),
    (
        ValueError,
        f" has shape [2, 4], {HOLDS}; must have a first dimension of 2 or be a list of 2",
        {"boxes": GOOD},
    ),
    (ValueError, f" has shape [3, 5, 7], {HOLDS}", {"mask": torch.zeros(3, 5, 7)}),
    (ValueError, f" has 1 entries, {HOLDS}; must be one", {"boxes": [GOOD]}),
    (
        ValueError,
        "[1][0] is [3, 0, 2, 1] (XYXY), must have",
        {"boxes": [GOOD, boxes([3.0, 0, 2, 1])]},
    ),
    (
        ValueError,
        "[1][2] is [3, 0, 2, 1] (XYXY), must have",
        {"boxes": torch.cat((torch.zeros(5, 4), boxes([3.0, 0, 2, 1]))).reshape(2, 3, 4)},
    ),
    (
        ValueError,
        "[1] has length 1, sample['boxes'][1] has 2 boxes",
        {"boxes": [GOOD, GOOD], "labels": [[1, 2], [3]]},
    ),
    (
        ValueError,
        " has 3 entries, sample['boxes'] is for 2 images; must be one",
        {"boxes": [GOOD, GOOD], "labels": [[1, 2], [3, 4], []]},
    ),
    (
        ValueError,
        "[0] has length 4, sample['boxes'][0] has 3 boxes",
        {"boxes": torch.zeros(2, 3, 4), "labels": torch.zeros(2, 4)},
    ),
    (
        ValueError,
        " mixes the formats ['XYWH', 'XYXY'], must have one",
        {"boxes": [typed(GOOD), typed(GOOD, "XYWH")]},
    ),
    (
        ValueError,
        "[1] is for 7 rows and 5 columns, sample['image'][1] has 5 and 7",
        {"mask": [torch.zeros(5, 7), torch.zeros(7, 5)]},
    ),
    (
        TypeError,
        " is a Tensor, must be a list of 2, like",
        {"keypoints": [torch.zeros(1, 2)] * 2, "keypoints_visible": torch.ones(2, 1)},
    ),
)
def test_batches(error: type[Exception], message: str, entries: Entries) -> None:
    check_entries(error, message, entries, BATCH)


def options(sample: Any, **fields: Any) -> Callable[[], Any]:
    return lambda: check_options(split_sample(sample)[0], TargetOptions(**fields))


@table(
    (
        ValueError,
        "transforms: boxes is 'drop', must be one of keep, clamp, sanitize",
        options(IMAGE, boxes="drop"),
    ),
    (
        ValueError,
        "transforms: keypoint_convention is 'half', must be 'integer' or 'half_pixel'",
        options(IMAGE, keypoint_convention="half"),
    ),
    (
        ValueError,
        "transforms: mask_fill is 255, sample['mask'] has dtype torch.int8; must be from -128 to "
        "127",
        options({"image": IMAGE, "mask": torch.zeros(5, 7, dtype=torch.int8)}, mask_fill=255),
    ),
    (
        ValueError,
        "transforms: mask_fill is -1, sample['mask'] has dtype uint8; must be from 0 to 255",
        options({"image": IMAGE, "mask": np.zeros((5, 7), np.uint8)}, mask_fill=-1),
    ),
    (
        ValueError,
        "transforms: sample['boxes'] has shape [2, 6, 4]; must be a list of each sample's boxes "
        "[N, 4] for boxes='sanitize'",
        options({"image": BATCH, "boxes": torch.zeros(2, 6, 4)}, boxes="sanitize"),
    ),
    (
        ValueError,
        "transforms: sample['boxes'] and sample['bboxes'] are in one container; must be in two, or",
        options({"image": IMAGE, "boxes": GOOD, "bboxes": GOOD}, boxes="sanitize"),
    ),
    (
        ValueError,
        "transforms: boxes='sanitize' can't tell whether sample[2] belongs to sample[1]; must be "
        "in one dict with them, under a name in keys={'labels': [...]}",
        options(
            (IMAGE, typed(GOOD), torch.zeros(2)),
            boxes="sanitize",
        ),
    ),
    *(
        (
            ValueError,
            f"transforms: boxes='sanitize' can't tell whether sample['{name}'] belongs to "
            "sample['boxes']; must be in one dict with them, under a name in keys={'labels':",
            options({"image": IMAGE, "boxes": GOOD, name: own}, boxes="sanitize"),
        )
        for name, own in (
            *(("gt_labels", [1, 2]), ("label", np.ones(2)), ("classes", ("a", "b"))),
            *(("track_ids", torch.tensor([7, 8])), ("confidence", [0.5, 0.25])),
        )
    ),
    (
        ValueError,
        "transforms: boxes='sanitize' can't tell whether sample['m'] belongs to sample['boxes']",
        options(
            {"image": IMAGE, "boxes": GOOD, "m": tv.Mask(torch.zeros(2, 5, 7))}, boxes="sanitize"
        ),
    ),
)
def test_options(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(
    (
        ValueError,
        "visible: keypoints has shape [4], must be [..., 2] or [..., 3]",
        lambda: visible(torch.zeros(4), SIZE),
    ),
    (
        ValueError,
        "visible: size is (5,), must be (height, width)",
        lambda: visible(torch.zeros(4, 2), (5,)),
    ),
    (
        ValueError,
        "visible: convention is 'edge', must be 'integer' or 'half_pixel'",
        lambda: visible(torch.zeros(4, 2), SIZE, convention="edge"),  # type: ignore[arg-type]
    ),
)
def test_visible(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def test_what_is_allowed_beside_sanitized_boxes() -> None:
    found = typed(GOOD)
    fine = (
        (IMAGE, found, 3),
        (IMAGE, {"boxes": GOOD, "image_id": torch.tensor([5])}),
        {"image": IMAGE, "boxes": found, "mask": torch.zeros(2, 5, 7, dtype=torch.uint8)},
        {"image": IMAGE, "boxes": found, "seg": tv.Mask(torch.zeros(5, 7))},
    )
    for sample in fine:
        options(sample, boxes="sanitize")()


@pytest.mark.parametrize("kind", ["mask", "masks"])
@pytest.mark.parametrize("name", ["flow", "Normals", "optical_flow", "surface_normals"])
def test_vectors_are_refused_as_masks(kind: str, name: str) -> None:
    with pytest.raises(ValueError, match=rf"keys\['{kind}'\] names '{name}': .* vectors turn"):
        T.Compose([T.RandomHorizontalFlip()], keys={kind: ["seg", name]})


def test_other_kinds_and_names_are_taken() -> None:
    T.Compose([T.RandomHorizontalFlip()], keys={"mask": ["depth"], "other": ["flow"]})
