"""Boxes and key points against loops and torchvision; visibility; dropped boxes."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms.v2
from references.targets import distance, move_box, move_point
from torch import Tensor
from torchvision import tv_tensors
from visops import transforms
from visops.transforms import visible
from visops.transforms.sample.images import image_sizes
from visops.transforms.sample.split import split_sample
from visops.transforms.targets.finish import finish_targets
from visops.transforms.targets.move import move_targets
from visops.transforms.targets.options import Geometry, TargetOptions

from transforms.samples import (
    SAMPLES,
    assert_same,
    detection,
    image,
    in_one_call,
    mixed,
    noted,
    still,
    typed_boxes,
)
from transforms.targets.cases import (
    IMAGE,
    PEERS,
    SIZE,
    affine,
    moved_boxes,
    moved_points,
    random_affine,
    random_boxes,
    random_perspective,
    transformed,
)

v2 = pytest.importorskip("torchvision.transforms.v2.functional")
tv = pytest.importorskip("torchvision.tv_tensors")

NOWHERE = -32768.0
T: Any = transforms


@pytest.mark.parametrize("draw", [random_affine, random_perspective])
def test_boxes_equal_loops(draw: Callable[[np.random.Generator], np.ndarray]) -> None:
    rng = np.random.default_rng(0)
    behind = cut = 0
    for _ in range(30):
        matrix, boxes = draw(rng), random_boxes(rng, 6)
        expected = [move_box(matrix, SIZE, box) for box in boxes.tolist()]
        for given_boxes in (boxes, torch.tensor(boxes), torch.tensor(boxes, requires_grad=True)):
            result = np.asarray(torch.as_tensor(moved_boxes(given_boxes, matrix)).detach())
            np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)
        behind += sum(box == [0.0] * 4 for box in expected)
        cut += sum(max(map(abs, box)) > 1e4 for box in expected)
    if draw is random_perspective:  # otherwise the test shows nothing
        assert behind > 3
        assert cut > 10


@pytest.mark.parametrize("draw", [random_affine, random_perspective])
@pytest.mark.parametrize(("convention", "shift"), [("integer", 0.5), ("half_pixel", 0.0)])
def test_points_equal_loops(
    draw: Callable[[np.random.Generator], np.ndarray], convention: str, shift: float
) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        matrix, points = draw(rng), rng.uniform(-20, 80, (10, 2))
        for give in (np.asarray, torch.tensor):
            result, seen = moved_points(give(points), matrix, keypoint_convention=convention)
            for point, new, is_visible in zip(points, result, seen, strict=True):
                x, y = (point + shift).tolist()
                if distance(matrix, SIZE, x, y) <= 0:
                    expected = (NOWHERE, NOWHERE)
                else:
                    expected = move_point(matrix, x, y)
                np.testing.assert_allclose(np.asarray(new) + shift, expected, rtol=1e-9, atol=shift)
                # Visible in both pictures: outside the first there was nothing to see.
                inside = all(
                    0 <= px < SIZE[1] and 0 <= py < SIZE[0] for px, py in ((x, y), expected)
                )
                assert bool(is_visible) == inside


def test_integer_coordinates_move_exactly() -> None:
    """Flips, quarter turns and shifts leave no rounding error."""
    flip = affine([-1, 0, 60], [0, 1, 0])
    turn = affine([0, -1, 40], [1, 0, 0])
    boxes = torch.tensor([[3.0, 4, 10, 20]])
    assert moved_boxes(boxes, flip).tolist() == [[50, 4, 57, 20]]
    assert moved_boxes(boxes, turn, size_out=(60, 40)).tolist() == [[20, 3, 36, 10]]
    points, _ = moved_points(torch.tensor([[0.0, 0], [59, 39]]), flip)
    assert points.tolist() == [[59, 0], [0, 39]]
    points, _ = moved_points(
        torch.tensor([[0.0, 0], [60, 40]]), flip, keypoint_convention="half_pixel"
    )
    assert points.tolist() == [[60, 0], [0, 40]]


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("form", ["XYXY", "XYWH", "CXCYWH"])
def test_against_torchvision(form: str, name: str) -> None:
    """Boxes in every format move as torchvision moves them."""
    rng = np.random.default_rng(2)
    first = rng.uniform(0, 30, (8, 2))
    corners = torch.tensor(np.concatenate((first, first + rng.uniform(0, 10, (8, 2))), 1))
    given = tv.BoundingBoxes(corners, format="XYXY", canvas_size=SIZE, clamping_mode=None)
    given = v2.convert_bounding_box_format(given, new_format=tv.BoundingBoxFormat[form])
    expected = PEERS[name](torchvision.transforms.v2)(tv.Image(IMAGE), given)[1]
    for policy in ("keep", "clamp"):
        chain = T.Compose([PEERS[name](T)], boxes=policy)
        _, found = chain(tv.Image(IMAGE), given)
        assert type(found) is tv.BoundingBoxes
        assert (found.format, found.canvas_size) == (expected.format, expected.canvas_size)
        if policy == "clamp":
            expected = v2.clamp_bounding_boxes(expected, clamping_mode="soft")
        torch.testing.assert_close(
            found.as_subclass(Tensor), expected.as_subclass(Tensor), rtol=1e-4, atol=1e-3
        )


def test_points_against_torchvision() -> None:
    """torchvision flips in the integer convention, but resizes in the half-pixel one."""
    points = tv.KeyPoints(torch.rand(5, 3, 2, dtype=torch.float64) * 35, canvas_size=SIZE)
    flip = affine([-1, 0, 60], [0, 1, 0])
    result, _ = moved_points(points, flip)
    assert type(result) is tv.KeyPoints
    torch.testing.assert_close(result, v2.horizontal_flip(points))
    resize = affine([45 / 60, 0, 0], [0, 50 / 40, 0])
    result, _ = moved_points(points, resize, size_out=(50, 45), keypoint_convention="half_pixel")
    expected = v2.resize(points, [50, 45])
    torch.testing.assert_close(result, expected)
    assert tuple(result.canvas_size) == tuple(expected.canvas_size)


def test_clamp_and_window() -> None:
    shift = affine([1, 0, 20], [0, 1, -5])
    boxes = torch.tensor([[0.0, 0, 30, 20], [50, 0, 55, 3], [-10, -10, 70, 60]])
    # The third is also clipped to the picture it comes from.
    expected = [[20, 0, 50, 15], [60, 0, 60, 0], [20, 0, 60, 35]]
    assert moved_boxes(boxes, shift, boxes="clamp").tolist() == expected
    assert moved_boxes(boxes, shift)[2].tolist() == [10, -15, 90, 55]
    window = np.array([5.0, 6, 40, 30])
    cut = moved_boxes(boxes, shift, boxes="clamp", window=window)
    assert cut.tolist() == [[25, 1, 50, 15], [60, 1, 60, 1], [25, 1, 60, 25]]
    assert moved_boxes(boxes, shift, window=window)[2].tolist() == [10, -15, 90, 55]


def test_sanitize_drops_what_belongs_to_boxes() -> None:
    boxes = torch.tensor([[0.0, 0, 30, 20], [50, 0, 55, 3], [10, 10, 12, 30]])
    masks = torch.arange(3, dtype=torch.uint8)[:, None, None].expand(3, *SIZE)
    sample = {
        "image": IMAGE,
        "target": {
            "boxes": boxes,
            "labels": ["a", "b", "c"],
            "scores": torch.tensor([0.1, 0.2, 0.3]),
            "iscrowd": np.array([0, 1, 0]),
            "masks": masks,
            "keypoints": torch.tensor([[[1.0, 1, 2]], [[2, 2, 2]], [[3, 3, 2]]]),
            "image_id": torch.tensor([7]),
            "orig_size": torch.tensor([40, 60, 3]),
        },
        "labels": torch.arange(3),  # not in the dict of the boxes
    }
    shift = affine([1, 0, 20], [0, 1, 0])
    result = transformed(sample, shift, boxes="sanitize")
    target = result["target"]
    assert target["boxes"].tolist() == [[20, 0, 50, 20], [30, 10, 32, 30]]
    assert target["labels"] == ["a", "c"]
    assert target["scores"].tolist() == pytest.approx([0.1, 0.3])
    assert target["iscrowd"].tolist() == [0, 0]
    assert target["masks"].shape == (2, *SIZE)
    assert target["masks"][:, 0, 30].tolist() == [0, 2]
    assert target["masks"][:, 0, 5].tolist() == [0, 0]  # masks of boxes have no class to ignore
    assert target["keypoints"].tolist() == [[[21, 1, 2]], [[23, 3, 2]]]
    assert target["image_id"].tolist() == [7]
    assert target["orig_size"].tolist() == [40, 60, 3]
    assert result["labels"].tolist() == [0, 1, 2]
    small = transformed(sample, shift, boxes="sanitize", min_size=3.0)["target"]
    assert small["labels"] == ["a"]
    nothing = transformed(sample, affine([1, 0, 90], [0, 1, 0]), boxes="sanitize", min_size=0.0)
    assert nothing["target"]["boxes"].shape == (0, 4)
    assert nothing["target"]["labels"] == []


def test_sanitize_keeps_visibilities_together() -> None:
    points = torch.tensor([[[1.0, 1], [58, 1]], [[50, 2], [51, 2]], [[3, 3], [4, 4]]])
    boxes = torch.tensor([[0.0, 0, 30, 20], [50, 0, 55, 3], [10, 10, 12, 30]])
    sample = {"image": IMAGE, "boxes": boxes, "keypoints": points}
    shift = affine([1, 0, 20], [0, 1, 0])
    result = transformed(sample, shift, boxes="sanitize")
    assert result["keypoints_visible"].tolist() == [[True, False], [True, True]]
    sample["keypoints_visible"] = torch.tensor([[2, 2], [2, 2], [0, 1]])
    result = transformed(sample, shift, boxes="sanitize")
    assert result["keypoints_visible"].tolist() == [[2, 0], [0, 1]]
    assert result["keypoints"].shape == (2, 2, 2)


def test_visibility() -> None:
    convention: Any
    points = torch.tensor([[0.0, 0], [30, 20], [59, 39], [float("nan"), 3]])
    shift = affine([1, 0, 20], [0, 1, 0])
    result, seen = moved_points(points, shift)
    assert seen.tolist() == [True, True, False, False]
    assert torch.isnan(result[3]).all()
    # A third column of 0, 1 or 2 stays in its place, and no key is added.
    column = torch.tensor([2.0, 1.0, 2.0, 2.0])[:, None]
    result, extra = moved_points(torch.cat((points, column), 1), shift)
    assert result[:, 2].tolist() == [2, 1, 0, 0]
    assert extra is None
    # Flags from the dict are ANDed in, and keep their dtype and form.
    for given_flags, expected in (
        (torch.tensor([True, False, True, True]), [True, False, False, False]),
        (np.array([2, 1, 2, 2]), [2, 1, 0, 0]),
        ([1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]),
    ):
        sample = {"image": IMAGE, "keypoints": points, "keypoints_visible": given_flags}
        flags = transformed(sample, shift)["keypoints_visible"]
        assert type(flags) is type(given_flags)
        assert list(flags) == expected
    # The window hides points outside it, even if their place is in the picture.
    _, seen = moved_points(points, shift, window=np.array([10.0, 10, 60, 40]))
    assert seen.tolist() == [False, True, False, False]
    for convention, low in (("integer", -0.5), ("half_pixel", 0.0)):
        edges = torch.tensor([[low, low], [low + 60, low], [low + 59.9, low + 39.9]])
        assert visible(edges, SIZE, convention=convention).tolist() == [True, False, True]
        _, seen = moved_points(edges, np.eye(3), keypoint_convention=convention)
        assert seen.tolist() == [True, False, True]
    assert visible([[1, 1], [70, 1]], SIZE).tolist() == [True, False]


def test_points_lost_in_one_pass_stay_lost() -> None:
    """A point cut off or behind the horizon stays lost when a later pass moves it back."""
    leaves, rebuild = split_sample(
        {"image": IMAGE, "keypoints": torch.tensor([[5.0, 5], [30, 20]])}
    )
    sizes, options = image_sizes(leaves), TargetOptions()
    there = Geometry(np.eye(3)[None], sizes, sizes, np.array([[10.0, 10, 50, 30]]))
    back = Geometry(np.eye(3)[None], sizes, sizes)
    for geometry in (there, back):
        move_targets(leaves, geometry, options)
    finish_targets(leaves, sizes, options)
    assert rebuild(leaves)["keypoints_visible"].tolist() == [False, True]


def test_what_leaves_the_picture_between_passes_is_cut_off() -> None:
    sample = {
        "image": IMAGE,
        "boxes": torch.tensor([[0.0, 0, 10, 20]]),
        "keypoints": torch.tensor([[3.0, 5], [8, 5]]),
    }
    leaves, rebuild = split_sample(sample)
    sizes, options = image_sizes(leaves), TargetOptions(boxes="clamp")
    for shift in (-6.0, 6.0):
        matrix = affine([1, 0, shift], [0, 1, 0])[None]
        move_targets(leaves, Geometry(matrix, sizes, sizes), options)
    finish_targets(leaves, sizes, options)
    result = rebuild(leaves)
    assert result["boxes"].tolist() == [[6, 0, 10, 20]]
    assert result["keypoints"].tolist() == [[3, 5], [8, 5]]
    assert result["keypoints_visible"].tolist() == [False, True]


def test_the_identity_is_exact_in_a_batch() -> None:
    points = torch.rand(2, 50, 2, dtype=torch.float64) * 40
    turn = random_affine(np.random.default_rng(0))
    result = transformed(
        {"image": torch.zeros(2, 3, *SIZE), "keypoints": points}, np.stack([np.eye(3), turn])
    )
    assert torch.equal(result["keypoints"][0], points[0])


LIMITED = torch.zeros(3, 40, 60)
# Widths and heights 20 x 10, 2 x 30, 6 x 6, and 10 x 10 cut in half by the left edge.
ROWS = [[10.0, 5, 30, 15], [30, 5, 32, 35], [50, 20, 56, 26], [-5, 0, 5, 10]]


def kept(transform: Any, sample: dict[str, Any] | None = None, **options: Any) -> Any:
    chain = T.Compose(transform, boxes="sanitize", **options)
    given = {"image": LIMITED, "boxes": torch.tensor(ROWS), "labels": [0, 1, 2, 3]}
    return chain(given if sample is None else sample)["labels"]


def test_sides_and_areas() -> None:
    still = [T.RandomHorizontalFlip(0.0)]
    assert kept(still) == [0, 1, 2, 3]
    assert kept(still, min_size=3) == [0, 2, 3]
    assert kept(still, min_size=5.5) == [0, 2]
    assert kept(still, min_area=50) == [0, 1, 3]
    assert kept(still, min_area=51) == [0, 1]
    assert kept(still, min_area=51, min_size=10) == [0]


def test_visibility_limits() -> None:
    still = [T.RandomHorizontalFlip(0.0)]
    assert kept(still, min_visibility=0.5) == [0, 1, 2, 3]
    assert kept(still, min_visibility=0.51) == [0, 1, 2]
    # Growing doesn't count, and cuts in several passes do.
    assert kept([T.Resize((80, 120))], min_visibility=0.51) == [0, 1, 2]
    cut = [T.RandomCrop((40, 60)), T.RandomErasing(1.0), T.CenterCrop((40, 40))]  # cuts ten columns
    assert kept(cut, min_visibility=0.9) == [0, 1]
    twice = [*cut, T.RandomErasing(1.0), T.CenterCrop((40, 20))]  # columns 20 to 40 are left
    chain = T.Compose(twice)
    assert len(chain.passes) == 3
    assert kept(twice, min_visibility=0.5) == [0, 1]
    assert kept(twice, min_visibility=0.51) == [1]


@pytest.mark.parametrize("kind", ["tensor", "array", "list"])
def test_batches(kind: str) -> None:
    make: Any = {"tensor": torch.tensor, "array": np.array, "list": list}[kind]
    sample = {
        "image": torch.zeros(2, 3, 40, 60),
        "boxes": [make(ROWS), make(ROWS[2:])],
        "labels": [[0, 1, 2, 3], [2, 3]],
    }
    v2 = pytest.importorskip("torchvision.transforms.v2")
    for chain in ([T.Pad(0)], [T.Pad(0), v2.RandomHorizontalFlip(1.0)]):
        assert kept(chain, sample, min_visibility=0.6) == [[0, 1, 2], [2]]
        assert kept(chain, sample, min_area=60) == [[0, 1], []]


def test_shares_stay_with_their_boxes_across_other_transforms() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    chain = [T.CenterCrop((40, 40)), v2.RandomHorizontalFlip(1.0), T.Resize((80, 80))]
    assert kept(chain, min_visibility=0.9) == [0, 1]
    sample = {"image": LIMITED[None], "boxes": [torch.tensor(ROWS)], "labels": [[0, 1, 2, 3]]}
    assert kept(chain, sample, min_visibility=0.9) == [[0, 1]]


LATER: dict[str, Any] = {
    "turn": T.RandomRotation((30, 30)),
    "perspective": T.RandomPerspective(0.5, 1.0),
    "bend": T.ElasticTransform(100.0, 3.0),
    "lens": T.OpticalDistortion((0.5, 0.5), p=1.0),
}


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("kind", ["array", "tensor", "tracked", "batch"])
def test_what_a_crop_has_cut_off_stays_away(later: str, kind: str) -> None:
    """A box's side on the edge spans no box again when a later pass turns or bends it."""
    chain = T.Compose([T.CenterCrop(20), T.JPEG(90), LATER[later]], seed=0, boxes="sanitize")
    image = LIMITED.to(torch.uint8)
    boxes = torch.tensor([[0.0, 12, 15, 30], [45, 12, 58, 30], [24, 14, 34, 26], [22, 0, 38, 8]])
    given: Any = {"image": image, "boxes": boxes, "labels": [0, 1, 2, 3]}
    if kind == "array":
        given["boxes"] = boxes.numpy()
    elif kind == "tracked":
        given["boxes"] = boxes.requires_grad_()
    elif kind == "batch":
        given = {"image": image[None], "boxes": [boxes], "labels": [[0, 1, 2, 3]]}
    for index in range(5):
        found = chain(given, index=[index] if kind == "batch" else index)["labels"]
        assert found == ([[2]] if kind == "batch" else [2])
    clamped = T.Compose(chain.transforms, seed=0, boxes="clamp")
    x1, y1, x2, y2 = torch.as_tensor(clamped({"image": image, "boxes": boxes.detach()})["boxes"]).T
    assert (((x2 - x1) * (y2 - y1)) > 0).tolist() == [False, False, True, False]


@pytest.mark.parametrize("limits", [{}, {"min_size": 12.0, "min_area": 500.0}], ids=str)
@pytest.mark.parametrize("name", ["all", "detection", "no boxes", "boxes", "array boxes"])
def test_boxes_that_are_dropped(name: str, limits: dict[str, float]) -> None:
    """With all that belongs to them; what comes out has seen some of both kinds."""
    counts = set()
    for make in (detection, still, mixed):
        chain = transforms.Compose(make(), seed=0, boxes="sanitize", **limits)  # type: ignore[arg-type]
        sample = SAMPLES[name]()
        chain(sample)
        for index in range(12):
            found, expected = in_one_call(chain, sample, index=index)
            assert_same(found, expected)
            target = found if isinstance(found, dict) else found[1]
            counts.add(len(target["boxes"]))
    assert len(counts) > 1 or name == "no boxes"


LABELS: dict[str, tuple[Callable[[], Any], bool]] = {
    "list": (lambda: ["a", "b", "c"], True),
    "tuple": (lambda: (1, 2, 3), True),
    "rows": (lambda: torch.eye(3), True),
    "one for the image": (lambda: "night", True),
    "number": (lambda: torch.tensor(3), True),
    "array": (lambda: np.array([1, 2, 3]), True),
    "typed": (lambda: tv_tensors.Mask(torch.ones(3, 1)), False),
    "keys": (lambda: dict.fromkeys((1, 2, 3)).keys(), False),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_boxes_that_are_dropped(name: str) -> None:
    make, in_one_call = LABELS[name]
    chain = transforms.Compose(detection(), seed=0, boxes="sanitize")

    def outcome() -> Any:
        sample = {"image": image(), "boxes": typed_boxes(), "labels": make(), "id": [1, 2, 3]}
        try:
            return chain(sample, index=3)
        except (TypeError, ValueError) as error:
            return str(error)

    outcome()
    with noted(direct=False):
        expected = outcome()
    with noted() as went:
        found = outcome()
    assert went in ([in_one_call], [])
    assert_same(found, expected)


TWO = torch.tensor([[0.0, 0.0, 2.0, 2.0], [3.0, 3.0, 5.0, 5.0]])
UNCLEAR: dict[str, tuple[str, Any]] = {
    "another name": ("sample['gt_labels']", {"boxes": TWO, "gt_labels": [1, 2]}),
    "numbers of objects": ("sample['track_ids']", {"boxes": TWO, "track_ids": TWO[:, 0]}),
    "labels outside": ("sample['labels']", {"labels": [1, 2], "target": {"boxes": TWO}}),
    "labels within": ("sample['target']['labels']", {"boxes": TWO, "target": {"labels": [1, 2]}}),
    "masks outside": (
        "sample['masks']",
        {"masks": torch.ones(2, 8, 8, dtype=torch.bool), "target": {"boxes": TWO}},
    ),
}


@pytest.mark.parametrize("step", [T.CenterCrop(4), T.GaussianBlur(3), T.ElasticTransform()])
@pytest.mark.parametrize("name", UNCLEAR)
def test_what_may_belong_to_dropped_boxes_is_refused(name: str, step: Any) -> None:
    """Whatever runs the chain, and each time."""
    what, targets = UNCLEAR[name]
    sample = {"image": torch.zeros(3, 8, 8), **targets}
    chain = T.Compose([step], boxes="sanitize")
    for _ in range(2):
        with pytest.raises(ValueError, match=f"can't tell whether {re.escape(what)} belongs to "):
            chain(sample)
    assert set(T.Compose([step])(sample)) >= set(sample)  # nothing is dropped
    with pytest.raises(ValueError, match=f"can't tell whether {re.escape(what)} belongs to "):
        T.Mosaic(16, fill=0).collate([sample] * 4)


def test_a_first_sample_without_boxes_and_labels() -> None:
    """Those of the others are dropped with their boxes."""
    nothing = {"image": torch.zeros(3, 8, 8), "boxes": TWO[:0], "labels": None}
    full = {**nothing, "boxes": TWO, "labels": [1, 2]}
    chain = T.Compose([T.CenterCrop(4)], boxes="sanitize")
    assert chain.collate([nothing, full])["labels"] == [None, [2]]
    assert chain.collate([full, nothing])["labels"] == [[2], None]
    points = {"keypoints": torch.tensor([[1.0, 2, 2, 3, 4, 1]] * 2)}
    found = chain.collate([{**nothing, "keypoints": []}, {**full, **points}])["keypoints"][1]
    assert found.shape == (1, 6)  # as COCO has them


def test_labels_elsewhere_that_are_the_image_s() -> None:
    chain = T.Compose([T.CenterCrop(4)], boxes="sanitize")
    image, own = torch.zeros(3, 8, 8), {"boxes": TWO, "labels": [1, 2]}
    assert chain({"image": image, "labels": [5], "target": own})["target"]["labels"] == [2]
    assert chain({"image": image, "labels": 5, "target": {"boxes": TWO}})["labels"] == 5
    batch = {"image": torch.zeros(2, 3, 8, 8), "labels": torch.tensor([5, 6])}
    assert chain({**batch, "target": {"boxes": [TWO, TWO]}})["labels"].tolist() == [5, 6]
    other = T.Compose([T.CenterCrop(4)], boxes="sanitize", keys={"other": ["labels"]})
    assert other({"image": image, "labels": [5, 6], "target": {"boxes": TWO}})["labels"] == [5, 6]
