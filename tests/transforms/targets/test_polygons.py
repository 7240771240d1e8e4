"""Polygons: moved point by point, clipped, dropped with boxes, given back in their own type."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check, table
from matplotlib.path import Path
from torch import Tensor
from visops import transforms as T
from visops.transforms.targets.polygons import clip, cut_out

from .cases import PEERS, SIZE, random_affine, random_perspective, transformed

v2 = pytest.importorskip("torchvision.transforms.v2")
tv = pytest.importorskip("torchvision.tv_tensors")

HEIGHT, WIDTH = SIZE
IMAGE = torch.zeros(3, HEIGHT, WIDTH)


def random_polygon(rng: np.random.Generator, corners: int, star: bool = False) -> np.ndarray:
    """Draw a polygon [K, 2] around a point; a star is not convex."""
    angles = np.sort(rng.uniform(0, 2 * np.pi, corners))
    radii = rng.uniform(2, 25, corners) if star else np.full(corners, rng.uniform(5, 20))
    middle = rng.uniform((0, 0), (WIDTH, HEIGHT))
    return middle + radii[:, None] * np.stack((np.cos(angles), np.sin(angles)), -1)


def contains(polygon: Any, points: np.ndarray) -> np.ndarray:
    return Path(np.asarray(polygon).reshape(-1, 2)).contains_points(points)


def moved(objects: Any, matrix: Any, **options: Any) -> Any:
    return transformed({"image": IMAGE, "polygons": objects}, matrix, **options)["polygons"]


@pytest.mark.parametrize("seed", range(20))
def test_points_move_by_the_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = random_affine(rng)
    polygons = [random_polygon(rng, k, True) for k in (3, 4, 9)]
    result = moved([polygons[:2], polygons[2:]], matrix)
    assert [len(o) for o in result] == [2, 1]
    for got, points in zip([*result[0], *result[1]], polygons, strict=True):
        np.testing.assert_allclose(got, points @ matrix[:2, :2].T + matrix[:2, 2], atol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_clipping_keeps_what_is_inside(seed: int) -> None:
    """A point of the window is in the clipped polygon if it is in the polygon, and no other is."""
    rng = np.random.default_rng(seed)
    window = np.array([10.0, 5, 40, 30])
    for star in (False, True):
        polygon = random_polygon(rng, int(rng.integers(3, 12)), star)
        points = rng.uniform(-10, 70, (4000, 2))
        within = ((points > window[:2]) & (points < window[2:])).all(1)
        expected = contains(polygon, points) & within
        result = clip(polygon, window.tolist())
        got = np.zeros(len(points), bool) if result is None else contains(result, points)
        np.testing.assert_array_equal(got, expected)
        if result is not None:
            assert (result >= window[:2]).all()
            assert (result <= window[2:]).all()
            # New points lie on an edge exactly: polygons that share one leave no gap.
            new = np.array([p for p in result if not (p == polygon).all(1).any()]).reshape(-1, 2)
            assert ((new == window[:2]) | (new == window[2:])).any(1).all()


def test_clipping_at_edges_and_corners() -> None:
    square = np.array([[0.0, 0], [4, 0], [4, 4], [0, 4]])
    assert clip(square, (0, 0, 4, 4)) is square
    assert clip(square, (4, 0, 8, 4)) is None  # they share an edge
    assert clip(square, (4, 4, 8, 8)) is None
    assert clip(square, (1, 1, 1, 3)) is None  # an empty window
    assert clip(square, (-5, 1, 9, 2)).tolist() == [[4, 1], [4, 2], [0, 2], [0, 1]]  # type: ignore[union-attr]
    assert clip(square, (1, 1, 2, 2)).tolist() == [[2, 1], [2, 2], [1, 2], [1, 1]]  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(30))
def test_perspective(seed: int) -> None:
    """Points in front of the horizon are in the moved polygon if they are in the polygon."""
    rng = np.random.default_rng(seed)
    matrix = random_perspective(rng)
    polygon = random_polygon(rng, 7, star=bool(seed % 2))
    points = rng.uniform((0, 0), (WIDTH, HEIGHT), (3000, 2))
    w = points @ matrix[2, :2] + matrix[2, 2]
    w /= matrix[2, :2] @ (WIDTH / 2, HEIGHT / 2) + matrix[2, 2]
    front = w > 0.01
    projected = points @ matrix[:2, :2].T + matrix[:2, 2]
    projected /= (points @ matrix[2, :2] + matrix[2, 2])[:, None]
    result = moved([[polygon]], matrix)[0]
    got = np.zeros(len(points), bool)
    for part in result:
        got |= contains(part, projected)
    np.testing.assert_array_equal(got[front], contains(polygon, points)[front])


@pytest.mark.parametrize("seed", range(20))
def test_what_is_cut_out_is_gone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    window = np.array([[10.0, 5, 40, 30]])
    polygon = random_polygon(rng, 8, True)
    leaf = type("Leaf", (), {"batch": None, "value": [[polygon]]})()
    leaf.samples = lambda: [leaf.value]
    cut_out(leaf, window)
    points = rng.uniform(-10, 70, (4000, 2))
    hidden = ((points > window[0, :2]) & (points < window[0, 2:])).all(1)
    inside = np.sum([contains(part, points) for part in leaf.value[0]], 0)
    # Parts don't overlap: a point is in one of them or in none.
    np.testing.assert_array_equal(inside, contains(polygon, points) & ~hidden)


SQUARE = [10.0, 5, 30, 5, 30, 25, 10, 25]
POINTS = np.array(SQUARE).reshape(4, 2)
FLIPPED = [50.0, 5, 30, 5, 30, 25, 50, 25]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (SQUARE, FLIPPED),
        ([int(v) for v in SQUARE], FLIPPED),
        (tuple(SQUARE), FLIPPED),
        (POINTS.tolist(), np.reshape(FLIPPED, (4, 2)).tolist()),
        (np.array(SQUARE, np.float32), np.array(FLIPPED, np.float32)),
        (POINTS.astype(np.int16), np.reshape(FLIPPED, (4, 2)).astype(np.int16)),
        (torch.tensor(SQUARE), torch.tensor(FLIPPED)),
        (torch.from_numpy(POINTS).to(torch.int32), torch.tensor(FLIPPED).reshape(4, 2).int()),
    ],
    ids=[
        "list",
        "integers",
        "tuple",
        "points",
        "array",
        "integer array",
        "tensor",
        "integer tensor",
    ],
)
def test_types_and_structure(form: Any, expected: Any) -> None:
    """Polygons keep their type; an object that is one polygon becomes a list of one."""
    flip = T.RandomHorizontalFlip(1.0)
    for objects in ([form, form], [[form], [form]], [[form, form]]):
        sample = {"image": torch.zeros(3, HEIGHT, WIDTH), "polygons": objects}
        result = flip(sample)["polygons"]
        assert [len(o) for o in result] == [len(objects[0]) if len(objects) == 1 else 1] * len(
            objects
        )
        for polygon in [p for polygons in result for p in polygons]:
            assert type(polygon) is type(expected)
            if isinstance(expected, list):
                assert polygon == expected
            else:
                assert polygon.dtype == expected.dtype
                assert polygon.tolist() == expected.tolist()
    assert flip({"image": IMAGE, "polygons": []})["polygons"] == []
    assert flip({"image": IMAGE, "polygons": [[]]})["polygons"] == [[]]
    assert flip({"image": IMAGE, "segmentation": None})["segmentation"] is None


def detection() -> dict[str, Any]:
    corner = [0.0, 0, 8, 0, 8, 8, 0, 8]
    return {
        "image": IMAGE,
        "boxes": torch.tensor([[10.0, 5, 30, 25], [0, 0, 8, 8], [40, 10, 60, 40]]),
        "labels": ["middle", "corner", "right"],
        "segmentation": [[SQUARE], [corner, [1.0, 1, 2, 1, 2, 2]], [[40.0, 10, 60, 10, 60, 40]]],
    }


def test_they_follow_the_option_boxes() -> None:
    crop = T.CenterCrop((20, 40))  # columns 10 to 50, rows 10 to 30
    kept = T.Compose([crop])(detection())
    assert kept["segmentation"][1][1] == [-9.0, -9, -8, -9, -8, -8]
    clamped = T.Compose([crop], boxes="clamp")(detection())
    assert clamped["segmentation"][1] == []  # nothing is left of either polygon
    assert clamped["segmentation"][0] == [[20.0, 0, 20, 15, 0, 15, 0, 0]]
    dropped = T.Compose([crop], boxes="sanitize")(detection())
    assert dropped["labels"] == ["middle", "right"]
    assert dropped["segmentation"] == [clamped["segmentation"][0], clamped["segmentation"][2]]
    # A pass that cuts before another one: as with boxes, what is gone stays gone.
    for boxes in ("clamp", "sanitize"):
        steps = [T.CenterCrop((20, 40)), T.CenterCrop((40, 60))]
        result = T.Compose(steps, exact=True, boxes=boxes)(detection())
        assert (result["segmentation"][1:2] == [[]]) == (boxes == "clamp")
        for polygons, box in zip(result["segmentation"], result["boxes"], strict=True):
            for polygon in polygons:
                points = np.reshape(polygon, (-1, 2))
                assert (points >= box[:2].numpy() - 1e-9).all()
                assert (points <= box[2:].numpy() + 1e-9).all()


@pytest.mark.parametrize("seed", range(6))
def test_they_stay_in_step_with_boxes(seed: int) -> None:
    """The bounds of a polygon are its box, through a chain of everything that keeps it upright."""
    rng = np.random.default_rng(seed)
    polygons = [random_polygon(rng, 9, True).clip(0, (WIDTH, HEIGHT)) for _ in range(4)]
    boxes = np.stack([np.concatenate((p.min(0), p.max(0))) for p in polygons])
    steps = [T.RandomResizedCrop((33, 47)), T.RandomHorizontalFlip(), T.RandomVerticalFlip()]
    steps += [T.Pad(3), T.Letterbox(64, fill=0)]
    sample = {"image": IMAGE, "boxes": torch.from_numpy(boxes), "polygons": polygons}
    result = T.Compose(steps, seed=seed)(sample)
    for got, box in zip(result["polygons"], result["boxes"].numpy(), strict=True):
        points = got[0]
        np.testing.assert_allclose(np.concatenate((points.min(0), points.max(0))), box, atol=1e-9)


def test_inverse_brings_them_back() -> None:
    chain = T.Compose([T.RandomAffine(30, (0.2, 0.2), (0.7, 1.2), 10), T.RandomHorizontalFlip()])
    result, params = chain(detection(), return_params=True)
    back = chain.inverse(result, params)["segmentation"]
    for got, expected in zip(back, detection()["segmentation"], strict=True):
        np.testing.assert_allclose(np.concatenate(got), np.concatenate(expected), atol=1e-6)


def test_batches() -> None:
    sample = detection()
    chain = T.Compose([T.RandomResizedCrop(32), T.RandomRotation(20)], seed=0, boxes="sanitize")
    alone = [chain(sample, index=i)["segmentation"] for i in range(3)]
    batch = {key: [value] * 3 for key, value in sample.items()}
    assert chain(batch, index=range(3))["segmentation"] == alone
    assert chain.collate([sample] * 3, index=range(3))["segmentation"] == alone
    # Transforms of torchvision split the batch and join it again.
    mixed = T.Compose([*chain.transforms, v2.RandomHorizontalFlip(1.0)], seed=0, boxes="sanitize")
    ours = T.Compose([*chain.transforms, T.RandomHorizontalFlip(1.0)], seed=0, boxes="sanitize")
    theirs = mixed(batch, index=range(3))["segmentation"]
    for got, expected in zip(theirs, ours(batch, index=range(3))["segmentation"], strict=True):
        assert [len(o) for o in got] == [len(o) for o in expected]
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(np.concatenate(one), np.concatenate(other), atol=1e-4)


@pytest.mark.parametrize("name", PEERS)
def test_transforms_of_torchvision_move_them(name: str) -> None:
    theirs, ours = (T.Compose([PEERS[name](m)])(detection())["segmentation"] for m in (v2, T))
    for got, expected in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(np.concatenate(got), np.concatenate(expected), atol=1e-3)


@pytest.mark.parametrize("still", [v2.ConvertBoundingBoxFormat("CXCYWH"), v2.ColorJitter(0.5)])
def test_what_moves_nothing_leaves_them(still: Any) -> None:
    assert T.Compose([still])(detection())["segmentation"] == detection()["segmentation"]


def test_mixing() -> None:
    sample = detection()
    batch = {
        **{key: [value, value] for key, value in sample.items() if key != "image"},
        "image": torch.zeros(2, *IMAGE.shape),
    }
    mixed = T.MixUp()(batch)
    assert mixed["segmentation"][0] == sample["segmentation"] * 2
    half = {"left": 0, "top": 0, "right": 20, "bottom": 40}
    step = {name: np.full(2, float(edge)) for name, edge in half.items()}
    params = T.Parameters(["CutMix"], [step], np.array([SIZE, SIZE]))
    cut = T.CutMix()(batch, params=params)
    assert cut["labels"][0] == ["middle", "right", "middle", "corner"]
    own, right, pasted, corner = cut["segmentation"][0]
    assert own == [[20.0, 5, 30, 5, 30, 25, 20, 25]]
    assert pasted == [[10.0, 5, 20, 5, 20, 25, 10, 25]]
    assert (right, corner) == (sample["segmentation"][2], sample["segmentation"][1])
    canvas = T.Mosaic((HEIGHT, WIDTH), center=(1, 1), fill=0)(batch)
    np.testing.assert_allclose(canvas["segmentation"][0][0][0], SQUARE)
    shifted = (POINTS + np.array([WIDTH, 0])).ravel()
    np.testing.assert_allclose(canvas["segmentation"][0][3][0], shifted)


def test_preview_draws_them() -> None:
    figure = T.preview(T.Pad(0), {"image": IMAGE, "polygons": [[SQUARE]]}, n=1)
    patch = figure.axes[1].patches[0]
    np.testing.assert_allclose(patch.get_xy()[:4], POINTS - 0.5)  # type: ignore[arg-type, attr-defined]


def having(polygons: Any, **more: Any) -> Callable[[], Any]:
    return lambda: T.RandomHorizontalFlip(1.0)({"image": IMAGE, "polygons": polygons, **more})


FORM = (
    "must be a list of objects, each a list of polygons [x1, y1, x2, y2, ...] or [K, 2] with at "
    "least three points"
)


@table(
    (
        ValueError,
        f"transforms: sample['polygons'][0][1] has shape [5], {FORM}",
        having([[SQUARE, [1, 2, 3, 4, 5]]]),
    ),
    (
        ValueError,
        f"transforms: sample['polygons'][0][0] has shape [4], {FORM}",
        having([[[1, 2, 3, 4]]]),
    ),
    (
        ValueError,
        f"transforms: sample['polygons'][1] has shape [4, 3], {FORM}",
        having([SQUARE, np.zeros((4, 3))]),
    ),
    (ValueError, f"transforms: sample['polygons'][0] is a dict, {FORM}", having([{"counts": b""}])),
    (ValueError, f"transforms: sample['polygons'][0] is a int, {FORM}", having([3])),
    (
        ValueError,
        f"transforms: sample['polygons'][0][0] is not made of numbers, {FORM}",
        having([[["a"] * 6]]),
    ),
    (
        ValueError,
        "transforms: point 1 of sample['polygons'][0] is [nan, 1.0], must be finite",
        having([[0, 0, np.nan, 1, 1, 1]]),
    ),
    (
        ValueError,
        "transforms: sample['polygons'] has length 1, sample['boxes'] has 2 boxes; must be the "
        "same",
        having([[SQUARE]], boxes=torch.zeros(2, 4)),
    ),
    (
        ValueError,
        "transforms: sample['segmentation'] has 1 entries, sample['image'] holds 2 images; must",
        lambda: T.Pad(1)({"image": torch.zeros(2, 3, 9, 9), "segmentation": [[SQUARE]]}),
    ),
    (
        TypeError,
        "transforms: RandomIoUCrop can't move sample['polygons']; must be left out beside polygons",
        lambda: T.Compose([v2.RandomIoUCrop()])(
            {"image": IMAGE, "polygons": [SQUARE], "boxes": torch.tensor([[0.0, 0, 9, 9]])}
        ),
    ),
)
def test_bad_input(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def test_masks_may_have_the_same_name() -> None:
    """A dict's `segmentation` may as well be a typed mask."""
    mask = tv.Mask(torch.arange(HEIGHT * WIDTH).reshape(SIZE))
    result = T.RandomHorizontalFlip(1.0)({"image": IMAGE, "segmentation": mask})["segmentation"]
    assert torch.equal(result.as_subclass(Tensor), mask.as_subclass(Tensor).flip(1))
