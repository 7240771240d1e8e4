"""MixUp and CutMix with boxes, masks and key points: against painted pixels, one by one."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check, table
from torch import Tensor
from visops import transforms as T

tv = pytest.importorskip("torchvision.tv_tensors")

BATCH, HEIGHT, WIDTH = 4, 30, 40
RNG = np.random.default_rng(0)
IMAGES = torch.rand(BATCH, 3, HEIGHT, WIDTH)


def random_boxes(count: int) -> np.ndarray:
    first = RNG.integers(0, (WIDTH - 6, HEIGHT - 6), (count, 2))
    return np.concatenate((first, np.minimum(first + RNG.integers(2, 25, (count, 2)), (40, 30))), 1)


def painted(boxes: np.ndarray) -> np.ndarray:
    masks = np.zeros((len(boxes), HEIGHT, WIDTH), bool)
    for mask, (x1, y1, x2, y2) in zip(masks, boxes.astype(int), strict=True):
        mask[y1:y2, x1:x2] = True
    return masks


def detection(counts: tuple[int, ...] = (3, 1, 0, 4)) -> dict[str, Any]:
    boxes = [random_boxes(count).astype(np.float64) for count in counts]
    return {
        "image": IMAGES,
        "boxes": [torch.from_numpy(b) for b in boxes],
        "labels": [[f"{i}.{j}" for j in range(len(b))] for i, b in enumerate(boxes)],
        "masks": [torch.from_numpy(painted(b)) for b in boxes],
        "area": [torch.from_numpy(painted(b).sum((1, 2)).astype(np.float64)) for b in boxes],
        "keypoints": [torch.from_numpy(RNG.uniform(0, 30, (len(b), 5, 2))) for b in boxes],
        "difficult": [torch.arange(len(b)) for b in boxes],
        "file": list("abcd"),
        "image_id": torch.arange(BATCH),
    }


PER_BOX = ("boxes", "labels", "masks", "area", "keypoints", "difficult")


def test_mixup_joins_what_is_in_both() -> None:
    sample = detection()
    result = T.MixUp()(sample)
    assert list(result) == list(sample)
    for name in PER_BOX:
        for b in range(BATCH):
            own, other = sample[name][b], sample[name][b - 1]
            expected = own + other if isinstance(own, list) else torch.cat((own, other))
            assert type(result[name][b]) is type(expected)
            assert torch.equal(
                torch.as_tensor(len(expected)), torch.as_tensor(len(result[name][b]))
            )
            if isinstance(own, list):
                assert result[name][b] == expected
            else:
                assert torch.equal(result[name][b], expected)
    assert result["file"] == list("abcd")
    assert torch.equal(result["image_id"], sample["image_id"])
    assert len(sample["boxes"][0]) == 3  # what was given is left alone


@pytest.mark.parametrize("seed", range(8))
def test_cutmix_equals_painting(seed: int) -> None:
    """Masks are what is seen; boxes are their bounds, for boxes of whole pixels."""
    sample = detection()
    result, params = T.CutMix(seed=seed, alpha=2.0)(sample, return_params=True)
    step = params.steps[0]
    for b in range(BATCH):
        x1, y1, x2, y2 = (int(step[name][b]) for name in ("left", "top", "right", "bottom"))
        inside = np.zeros((HEIGHT, WIDTH), bool)
        inside[y1:y2, x1:x2] = True
        masks, labels, points, seen = [], [], [], []
        for position, visible in ((b, ~inside), (b - 1, inside)):
            for i, mask in enumerate(sample["masks"][position].numpy()):
                if (mask & visible).any():
                    masks.append(mask & visible)
                    labels.append(f"{position % BATCH}.{i}")
                    points.append(sample["keypoints"][position][i].numpy())
                    pixel = np.floor(points[-1] + 0.5).astype(int)
                    seen.append(visible[pixel[:, 1].clip(max=29), pixel[:, 0]])
                    seen[-1] &= pixel[:, 1] < HEIGHT
        assert result["labels"][b] == labels
        assert len(result["boxes"][b]) == len(masks) == len(result["difficult"][b])
        for i, mask in enumerate(masks):
            np.testing.assert_array_equal(result["masks"][b][i], mask)
            rows, columns = np.nonzero(mask)
            bounds = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            np.testing.assert_allclose(result["boxes"][b][i], bounds, atol=1e-9)
            assert float(result["area"][b][i]) == pytest.approx(mask.sum(), rel=1e-9)
            np.testing.assert_array_equal(result["keypoints"][b][i], points[i])
            np.testing.assert_array_equal(result["keypoints_visible"][b][i], seen[i])


def test_cutmix_pastes_masks_of_the_image() -> None:
    classes = torch.randint(0, 9, (BATCH, HEIGHT, WIDTH))
    for sample in (
        {"image": IMAGES, "mask": classes},
        {"image": IMAGES, "mask": list(classes)},
        {"image": IMAGES, "mask": classes.numpy()},
        {"image": IMAGES, "mask": tv.Mask(classes)},
    ):
        result, params = T.CutMix(labels_getter=None)(sample, return_params=True)
        step = params.steps[0]
        expected = classes.clone()
        for b in range(BATCH):
            x1, y1, x2, y2 = (int(step[name][b]) for name in ("left", "top", "right", "bottom"))
            expected[b, y1:y2, x1:x2] = classes[b - 1, y1:y2, x1:x2]
        assert type(result["mask"]) is type(sample["mask"])
        got = result["mask"]
        got = torch.stack(got) if isinstance(got, list) else torch.as_tensor(got)
        assert torch.equal(got.as_subclass(Tensor), expected)


def rectangle(x1: float, y1: float, x2: float, y2: float) -> T.Parameters:
    edges = {"left": x1, "top": y1, "right": x2, "bottom": y2}
    step = {name: np.full(2, edge) for name, edge in edges.items()}
    return T.Parameters(["CutMix"], [step], np.array([[HEIGHT, WIDTH]] * 2))


BOX = torch.tensor([[10.0, 5.0, 30.0, 25.0]])


def cut(params: T.Parameters, other: Any = None, **options: Any) -> Any:
    empty = torch.zeros(0, 4) if other is None else other
    sample = {
        "image": IMAGES[:2],
        "boxes": [BOX, empty],
        "labels": [["own"], ["other"] * len(empty)],
    }
    result = T.CutMix(**options)(sample, params=params)
    return [tuple(box) for box in result["boxes"][0].tolist()], result["labels"][0]


@pytest.mark.parametrize(
    ("covered", "expected"),
    [
        ((0, 0, 20, 30), [(20, 5, 30, 25)]),  # the left half
        ((20, 0, 40, 30), [(10, 5, 20, 25)]),  # the right half
        ((10, 5, 30, 15), [(10, 15, 30, 25)]),  # the upper half, exactly
        ((0, 15, 40, 30), [(10, 5, 30, 15)]),
        ((15, 0, 25, 30), [(10, 5, 30, 25)]),  # the middle
        ((0, 0, 20, 15), [(10, 5, 30, 25)]),  # a corner
        ((10, 5, 30, 25), []),  # all
        ((0, 0, 40, 30), []),
        ((12, 12, 12, 12), [(10, 5, 30, 25)]),  # nothing
        ((0, 0, 0, 30), [(10, 5, 30, 25)]),
    ],
)
def test_what_is_left_of_a_box(covered: Any, expected: Any) -> None:
    assert cut(rectangle(*covered))[0] == expected


def test_boxes_options() -> None:
    half = rectangle(0, 0, 20, 30)
    other = torch.tensor([[30.0, 10.0, 39.0, 20.0]])
    assert cut(half, other) == ([(20, 5, 30, 25)], ["own"])
    assert cut(half, other, boxes="keep") == ([(10, 5, 30, 25), (30, 10, 39, 20)], ["own", "other"])
    assert cut(half, other, boxes="clamp")[0] == [(20, 5, 30, 25), (20, 10, 20, 10)]
    assert cut(half, min_visibility=0.5)[0] == [(20, 5, 30, 25)]
    assert cut(half, min_visibility=0.51)[0] == []
    # A corner of a quarter: the box keeps its bounds, and three quarters of it are seen.
    assert cut(rectangle(0, 0, 20, 15), min_visibility=0.76)[0] == []
    assert cut(rectangle(0, 0, 20, 15), min_visibility=0.75)[0] == [(10, 5, 30, 25)]


@pytest.mark.parametrize("make", [T.MixUp, T.CutMix])
def test_forms_of_boxes(make: Callable[..., Any]) -> None:
    """Dense batches, arrays, numbers and tv_tensors give the same boxes, each in its own type."""
    rows = np.stack([random_boxes(3).astype(np.float64) for _ in range(BATCH)])
    mix = make(seed=2)

    def run(boxes: Any, **more: Any) -> Any:
        sample = {"image": IMAGES, "boxes": boxes, "labels": torch.arange(12).reshape(4, 3), **more}
        return mix(sample, index=range(BATCH))

    expected = run(list(torch.from_numpy(rows)))
    xywh = np.concatenate((rows[..., :2], rows[..., 2:] - rows[..., :2]), -1)
    typed = [
        tv.BoundingBoxes(torch.from_numpy(b), format="XYWH", canvas_size=(HEIGHT, WIDTH))
        for b in xywh
    ]
    for boxes in (torch.from_numpy(rows), rows, list(rows), rows.tolist(), typed):
        result = run(boxes)
        for b in range(BATCH):
            got = result["boxes"][b]
            first = boxes[0]
            assert type(got) is type(first)
            values = np.asarray(got, np.float64).reshape(-1, 4)
            if boxes is typed:
                assert got.format.value == "XYWH"  # type: ignore[union-attr]
                assert got.canvas_size == (HEIGHT, WIDTH)  # type: ignore[union-attr]
                values[:, 2:] += values[:, :2]
            np.testing.assert_allclose(values, expected["boxes"][b].numpy(), atol=1e-9)
            assert torch.equal(result["labels"][b], expected["labels"][b])


def test_integers_are_rounded_once() -> None:
    boxes = torch.tensor([[[10, 5, 30, 25]], [[0, 0, 1, 1]]])
    sample = {"image": IMAGES[:2], "boxes": boxes, "labels": torch.zeros(2, 1)}
    result = T.CutMix()(sample, params=rectangle(0, 0, 20, 30))
    assert result["boxes"][0].dtype == torch.int64
    assert result["boxes"][0].tolist() == [[20, 5, 30, 25], [0, 0, 1, 1]]


def test_key_points_without_boxes() -> None:
    points = torch.full((2, 3, 2), 10.0)
    sample = {"image": IMAGES[:2], "keypoints": points, "labels": torch.tensor([0, 1])}
    result = T.CutMix(num_classes=2)(sample, params=rectangle(0, 0, 20, 30))
    assert result["keypoints"][0].shape == (6, 2)
    assert result["keypoints_visible"][0].tolist() == [False] * 3 + [True] * 3
    assert result["labels"].tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_labels_of_images_beside_boxes() -> None:
    """They are mixed where a function finds them."""
    sample = {**detection(), "class": torch.tensor([0, 1, 2, 3])}
    assert torch.equal(T.MixUp(num_classes=4)(sample)["class"], sample["class"])
    result = T.MixUp(num_classes=4, labels_getter=lambda s: s["class"])(sample)
    assert result["class"].shape == (4, 4)
    assert result["labels"][0] == sample["labels"][0] + sample["labels"][3]


def test_collated_detection() -> None:
    sample = detection()
    samples = [{key: value[b] for key, value in sample.items()} for b in range(BATCH)]
    mix = T.CutMix(seed=0)
    expected = mix(sample, index=range(BATCH))
    result = mix.collate(samples, index=range(BATCH))
    assert torch.equal(result["image"], expected["image"])
    for b in range(BATCH):
        assert torch.equal(result["boxes"][b], expected["boxes"][b])
        assert result["labels"][b] == expected["labels"][b]
        assert torch.equal(result["masks"][b], expected["masks"][b])


@table(
    (
        TypeError,
        "transforms: sample['table'] is a plain Tensor of shape [4, 1, 7], which may have to move",
        lambda: T.MixUp()(
            {"image": IMAGES, "boxes": BOX.repeat(4, 1, 1), "table": torch.zeros(4, 1, 7)}
        ),
    ),
    (
        ValueError,
        "transforms: sample['keypoints'] can't be joined with those of other samples: ",
        lambda: T.MixUp(labels_getter=None)(
            {"image": IMAGES[:2], "keypoints": [torch.zeros(1, 4, 2), torch.zeros(1, 5, 2)]}
        ),
    ),
)
def test_bad_input(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@pytest.mark.parametrize(
    "mix", [T.MixUp(), T.CutMix(), T.Mosaic(16, fill=0)], ids=lambda v: v._get_name()
)
def test_samples_without_boxes_need_no_labels(mix: Any) -> None:
    """Wherever they are in a batch; those with boxes need them."""
    boxes = torch.tensor([[1.0, 2.0, 9.0, 9.0], [3.0, 4.0, 12.0, 14.0]])
    full = {"image": torch.zeros(3, 16, 16), "boxes": boxes, "labels": [1, 2], "scores": [0.5, 1.0]}
    nothing = {**full, "boxes": boxes[:0], "labels": None, "scores": None}
    for samples in ([nothing, full] * 2, [full, nothing] * 2):
        found = mix.collate(samples)
        for name in ("labels", "scores"):
            counts = [0 if own is None else len(own) for own in found[name]]
            assert counts == [len(own) for own in found["boxes"]]
    for labels, got in ((None, "no length"), (3, "no length"), ([4], "length 1")):
        with pytest.raises(ValueError, match=f"has {got}, sample\\['boxes'\\].* has 2 boxes; must"):
            mix.collate([full, {**full, "labels": labels}] * 2)


FLAT = torch.tensor([[1.0, 2, 2, 3, 4, 1]])


@pytest.mark.parametrize(
    "mix", [T.MixUp(), T.CutMix(), T.Mosaic(16, fill=0)], ids=lambda v: v._get_name()
)
@pytest.mark.parametrize("points", [FLAT, FLAT.view(1, 2, 3), FLAT.view(1, 3, 2).numpy()])
def test_key_points_beside_samples_without_objects(points: Any, mix: Any) -> None:
    """An empty list tells nothing of their form, and typed boxes nothing of others' types."""
    boxes = tv.BoundingBoxes([[1.0, 2, 9, 9]], format="XYXY", canvas_size=(16, 16))  # type: ignore[call-overload]
    full = {"image": torch.zeros(3, 16, 16), "boxes": boxes, "labels": [1], "keypoints": points}
    nothing = {**full, "boxes": torch.zeros(0, 4), "labels": [], "keypoints": []}
    for samples in ([nothing, full] * 2, [full, nothing] * 2):
        found = mix.collate(samples)
        for own, objects in zip(found["keypoints"], found["boxes"], strict=True):
            assert own.shape == (len(objects), *points.shape[1:])


@pytest.mark.parametrize(
    ("name", "one", "other", "says"),
    [
        ("keypoints", FLAT, FLAT.view(1, 2, 3), "mixes the forms [N, K, 2 or 3] and [N, 3 K]"),
        (
            "keypoints",
            FLAT.view(1, 2, 3),
            FLAT.view(1, 3, 2),
            "has [1, 3, 2] in sample 1, [1, 2, 3] in",
        ),
        (
            "mask",
            torch.zeros(16, 16),
            torch.zeros(2, 16, 16),
            "has [2, 16, 16] in sample 1, [16, 16] in",
        ),
        ("mask", torch.zeros(16, 16, 2), torch.zeros(2, 16, 16), "mixes the forms [N, H, W] and ["),
    ],
)
def test_targets_of_several_forms_are_refused(name: str, one: Any, other: Any, says: str) -> None:
    sample = {"image": torch.zeros(3, 16, 16), "boxes": torch.tensor([[1.0, 2, 9, 9]])}
    samples = [{**sample, "labels": [1], name: own} for own in (one, other)] * 2
    with pytest.raises(ValueError, match=re.escape(f"sample['{name}'] {says}")):
        T.CutMix().collate(samples)


def test_copy_paste_takes_masks_of_16_bits() -> None:
    masks = torch.zeros(1, 16, 16, dtype=torch.int32)
    masks[0, 2:9, 1:9] = 300
    boxes = torch.tensor([[1.0, 2, 9, 9]])
    sample = {"image": torch.zeros(3, 16, 16), "boxes": boxes, "labels": [1], "masks": masks}
    expected = T.CopyPaste(seed=0).collate([sample] * 2)["masks"]
    narrow = {**sample, "masks": masks.to(torch.uint16)}
    for own, wide in zip(T.CopyPaste(seed=0).collate([narrow] * 2)["masks"], expected, strict=True):
        assert own.dtype == torch.uint16
        assert torch.equal(own.to(torch.int32), wide)


@pytest.mark.parametrize("mix", [T.MixUp(), T.CutMix(), T.Mosaic(16)], ids=lambda v: v._get_name())
def test_classes_of_boxes_under_another_name_are_refused(mix: Any) -> None:
    """They would stay those of one sample, beside the boxes of several."""
    boxes = torch.tensor([[1.0, 2.0, 9.0, 9.0], [3.0, 4.0, 12.0, 14.0]])
    samples = [{"image": torch.zeros(3, 16, 16), "boxes": boxes, "gt_labels": [1, 2]}] * 4
    with pytest.raises(ValueError, match="can't tell whether sample\\['gt_labels'\\] belongs to"):
        mix.collate(samples)
