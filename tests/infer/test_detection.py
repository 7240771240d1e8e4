"""Boxes of a batch against loops; masks and maps of labels, resized, and as run lengths."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from references.rle import counts_of
from torchvision.models.detection.roi_heads import paste_masks_in_image
from visops.infer import Detection, Preprocess, Segmentation, run_lengths
from visops.infer.frames import Placement
from visops.infer.models.masks import columns_of_runs, masks_in_image

SIZES = ((40, 60), (64, 32), (17, 90))
PLACEMENTS = [Preprocess((64, 64), "letterbox").placement(*size) for size in SIZES]


def iou(a: Any, b: Any) -> Any:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return width * height / (sum(areas) - width * height)


def expected(
    boxes: Any,
    scores: Any,
    placement: Any,
    score_threshold: float = 0.3,
    iou_threshold: float = 0.5,
    most: int = 4,
) -> Any:
    """One image's detections: boxes [N, 4], scores [N, C], as plain loops."""
    kept = []
    for label in range(scores.shape[1]):
        order = sorted(range(len(boxes)), key=lambda i: -scores[i, label])
        chosen: list[int] = []
        for i in order:
            if scores[i, label] > score_threshold and all(
                iou(boxes[i], boxes[j]) <= iou_threshold for j in chosen
            ):
                chosen.append(i)
                kept.append((-scores[i, label], label, i))
    result = []
    for score, label, i in sorted(kept)[:most]:
        x1, y1, x2, y2 = boxes[i]
        xs = [
            min(max((x - placement.left) / placement.scale_x, 0), placement.full_width)
            for x in (x1, x2)
        ]
        ys = [
            min(max((y - placement.top) / placement.scale_y, 0), placement.full_height)
            for y in (y1, y2)
        ]
        result.append(([xs[0], ys[0], xs[1], ys[1]], label, -score))
    return result


def outputs(seed: int = 0, count: int = 3, boxes: int = 30, classes: int = 3) -> Any:
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(count, boxes, 2, generator=generator) * 50
    size = torch.rand(count, boxes, 2, generator=generator) * 25
    scores = torch.rand(count, boxes, classes, generator=generator)
    return torch.cat([corner, corner + size], -1), scores


def check(found: Any, wanted: Any) -> Any:
    assert len(found) == len(wanted)
    for result, expected_rows in zip(found, wanted, strict=True):
        assert result["labels"].tolist() == [row[1] for row in expected_rows]
        np.testing.assert_allclose(result["scores"], [row[2] for row in expected_rows], rtol=1e-6)
        boxes = np.array([row[0] for row in expected_rows]).reshape(-1, 4)
        np.testing.assert_allclose(result["boxes"], boxes, atol=1e-3)


OPTIONS = Detection(score_threshold=0.3, iou_threshold=0.5, max_detections=4)


def test_dense_heads() -> None:
    boxes, scores = outputs()
    wanted = [
        expected(b, s, p) for b, s, p in zip(boxes.numpy(), scores.numpy(), PLACEMENTS, strict=True)
    ]
    check(OPTIONS({"boxes": boxes, "scores": scores}, PLACEMENTS), wanted)


def test_lists_with_labels() -> None:
    boxes, scores = outputs()
    scores[1] = 0  # an image with nothing left
    listed, wanted = [], []
    for b, s, placement in zip(boxes, scores, PLACEMENTS, strict=True):
        best = s.max(1)
        listed.append({"boxes": b, "scores": best.values, "labels": best.indices})
        alone = torch.where(s == best.values[:, None], s, -1)
        wanted.append(expected(b.numpy(), alone.numpy(), placement))
    found = OPTIONS(listed, PLACEMENTS)
    check(found, wanted)
    assert found[1]["boxes"].shape == (0, 4)
    dense = {
        "boxes": boxes,
        "scores": torch.stack([item["scores"] for item in listed]),
        "labels": torch.stack([item["labels"] for item in listed]),
    }
    check(OPTIONS(dense, PLACEMENTS), wanted)


def test_nothing_at_all() -> None:
    empty = {"boxes": torch.zeros(2, 0, 4), "scores": torch.zeros(2, 0, 3)}
    for result in OPTIONS(empty, PLACEMENTS[:2]):
        assert [len(value) for value in result.values()] == [0, 0, 0]


def test_equal_scores_are_ordered_by_label_then_box() -> None:
    boxes = torch.tensor([[[0.0, 0, 5, 5], [10, 10, 15, 15]]])
    found = Detection(0.1)({"boxes": boxes, "scores": torch.full((1, 2, 2), 0.5)}, PLACEMENTS[1:2])
    assert found[0]["labels"].tolist() == [0, 0, 1, 1]
    assert (found[0]["boxes"][0] == found[0]["boxes"][2]).all()


def test_without_suppression_and_with_nan_scores() -> None:
    boxes = torch.tensor([[[0.0, 0, 5, 5], [0, 0, 5, 5], [0, 0, 5, 5]]])
    scores = torch.tensor([[[0.5], [float("nan")], [0.7]]])
    found = Detection(0.1, None)({"boxes": boxes, "scores": scores}, PLACEMENTS[1:2])
    np.testing.assert_allclose(found[0]["scores"], [0.7, 0.5], rtol=1e-6)


NAN, INF = float("nan"), float("inf")

NO_BOXES = (
    [NAN, 0, 5, 5],
    [0, 0, 5, NAN],
    [-INF, 0, 5, 5],
    [0, -INF, 5, 5],
    [0, 0, INF, 5],
    [0, 0, 5, INF],
    [9, 0, 3, 5],
    [0, 9, 5, 3],
)


@pytest.mark.parametrize("method", ["hard", "linear", "gaussian", None])
def test_invalid_boxes_are_left_out(method: str | None) -> None:
    """Such a box would suppress others, and could be neither cropped nor drawn."""
    good = [[1.0, 2, 6, 7], [3.0, 3, 3, 3]]
    boxes = torch.tensor([*NO_BOXES, *good])
    scores = torch.cat([torch.linspace(0.8, 0.9, len(NO_BOXES)), torch.tensor([0.5, 0.6])])
    labels = torch.full((len(boxes),), 3)
    detection = Detection(0.1, None) if method is None else Detection(0.1, method=method)
    placement = Preprocess((64, 64)).placement(64, 64)
    masks = torch.ones(len(boxes), 1, 8, 8) * torch.arange(len(boxes))[:, None, None, None]
    outputs = [
        {"boxes": boxes[None], "scores": scores[None, :, None]},
        {"boxes": boxes[None], "scores": scores[None], "labels": labels[None]},
        [{"boxes": boxes, "scores": scores, "labels": labels, "masks": masks}],
    ]
    for output in outputs:
        (found,) = detection(output, [placement])
        np.testing.assert_allclose(found["scores"], [0.6, 0.5], rtol=1e-6)
        assert found["boxes"].tolist() == good[::-1]
    assert len(found["masks"]) == 2


def test_infinite_scores_are_left_out() -> None:
    boxes = torch.tensor([[[1.0, 2, 6, 7], [1, 2, 6, 7]]])
    output = {"boxes": boxes, "scores": torch.tensor([[INF, 0.5]])}
    for form in (output, [{key: value[0] for key, value in output.items()}]):
        (found,) = Detection(0.1)(form, PLACEMENTS[1:2])
        assert found["scores"].tolist() == [0.5]


def test_soft_suppression_keeps_what_hard_drops() -> None:
    boxes = torch.tensor([[[0.0, 0, 10, 10], [0, 0, 10, 8]]])
    scores = torch.tensor([[[0.9], [0.8]]])
    output = {"boxes": boxes, "scores": scores}
    assert len(Detection(0.05)(output, PLACEMENTS[1:2])[0]["scores"]) == 1
    linear = Detection(0.05, method="linear")(output, PLACEMENTS[1:2])[0]["scores"]
    np.testing.assert_allclose(linear, [0.9, 0.8 * (1 - 0.8)], rtol=1e-5)
    gaussian = Detection(0.05, method="gaussian")(output, PLACEMENTS[1:2])[0]["scores"]
    np.testing.assert_allclose(gaussian, [0.9, 0.8 * np.exp(-(0.8**2) / 0.5)], rtol=1e-5)


def test_wrong_options_and_outputs() -> None:
    with pytest.raises(ValueError, match="method is 'softest', must be one of"):
        Detection(method="softest")
    for name, wrong in (
        ("iou_threshold", -0.1),
        ("iou_threshold", 1.1),
        ("iou_threshold", NAN),
        ("max_detections", 0),
        ("max_detections", -1),
        ("max_detections", 1.5),
        ("score_threshold", NAN),
        ("mask_threshold", NAN),
    ):
        options: dict[str, Any] = {name: wrong}
        with pytest.raises(ValueError, match=rf"visops.infer: {name} is {wrong}, must be"):
            Detection(**options)
    with pytest.raises(ValueError, match="a detector returned 0 results for 3 images"):
        Detection()([], PLACEMENTS)


def decoded(lengths: Any) -> Any:
    height, width = lengths["size"]
    flat = np.repeat(np.arange(len(lengths["counts"])) % 2, lengths["counts"])
    return flat.reshape(width, height).T.astype(bool)


@pytest.mark.parametrize("seed", range(4))
def test_run_lengths(seed: int) -> None:
    generator = np.random.default_rng(seed)
    mask = generator.random((5 + seed, 7)) < (0.2, 0.5, 0.9, 1.1)[seed]
    lengths = run_lengths(torch.from_numpy(mask))
    np.testing.assert_array_equal(decoded(lengths), mask)
    assert all(lengths["counts"][1:])
    assert run_lengths(torch.zeros(2, 2)) == {"size": [2, 2], "counts": [4]}


@pytest.mark.parametrize("fit", ["stretch", "letterbox", "crop"])
def test_masks_are_at_the_images_size(fit: str) -> None:
    placement = Preprocess((32, 32), fit, crop=1.0).placement(48, 64)
    # The left half of what the network sees.
    mask = torch.zeros(1, 32, 32)
    mask[..., :16] = 1
    output = [
        {
            "boxes": torch.tensor([[0.0, 0, 16, 32]]),
            "scores": torch.tensor([0.9]),
            "masks": mask[None],
        }
    ]
    (found,) = Detection(0.5)(output, [placement])
    (lengths,) = found["masks"]
    wanted = np.zeros((48, 64), bool)
    wanted[:, 8 if fit == "crop" else 0 : 32] = True
    np.testing.assert_array_equal(decoded(lengths), wanted)
    assert found["labels"].tolist() == [0]


def test_masks_follow_their_boxes() -> None:
    masks = torch.zeros(3, 1, 8, 8)
    for i in range(3):
        masks[i, 0, i] = 1
    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 4.1], [4, 4, 8, 8]])
    output = [{"boxes": boxes, "scores": torch.tensor([0.5, 0.6, 0.7]), "masks": masks}] * 2
    placement = Preprocess((8, 8)).placement(8, 8)
    for found in Detection(0.1)(output, [placement] * 2):
        rows = [decoded(lengths).any(1).nonzero()[0].tolist() for lengths in found["masks"]]
        assert rows == [[2], [1]]


def test_segmentation() -> None:
    scores = torch.zeros(1, 3, 4, 4)
    scores[0, 2, :, 2:] = 1
    placement = Preprocess((4, 4)).placement(8, 12)
    (found,) = Segmentation()({"out": scores}, [placement])
    assert found["labels"].tolist() == [0, 2]
    assert found["areas"].tolist() == [48, 48]
    assert decoded(found["masks"][1])[:, 6:].all()
    # A square in the middle sees only half of the image's width.
    placement = Preprocess((4, 4), "crop", crop=1.0).placement(8, 16)
    (found,) = Segmentation(masks=False)(scores, [placement])
    assert found["areas"].tolist() == [32, 32]
    assert "masks" not in found


def test_a_map_smaller_than_the_input() -> None:
    scores = torch.zeros(1, 2, 2, 2)
    scores[0, 1, 0] = 1
    placement = Placement(1.0, 1.0, 0.0, 0.0, 8, 8, 8, 8)
    (found,) = Segmentation()(scores, [placement])
    assert found["areas"].tolist() == [32, 32]
    assert decoded(found["masks"][1])[:4].all()


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
        assert run_lengths(mask) == {"size": list(shape), "counts": counts_of(mask.numpy())}


def test_run_lengths_are_of_one_mask() -> None:
    message = r"run_lengths: mask has shape \[1, 2, 3\], must be \[H, W\]"
    with pytest.raises(ValueError, match=message):
        run_lengths(torch.zeros(1, 2, 3))
