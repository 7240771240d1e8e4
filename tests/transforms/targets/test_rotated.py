"""Rotated boxes: moved as torchvision moves them, clipped and dropped by what is seen of them."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from visops import transforms
from visops.transforms.targets.polygons import rotated_corners

from .cases import PEERS

T: Any = transforms  # arguments of any type
tv = pytest.importorskip("torchvision.tv_tensors")
v2 = pytest.importorskip("torchvision.transforms.v2")

HEIGHT, WIDTH = 40, 60
IMAGE = torch.rand(3, HEIGHT, WIDTH)
FORMATS = ["CXCYWHR", "XYWHR", "XYXYXYXY"]
convert = v2.functional.convert_bounding_box_format


def random_rows(seed: int, count: int = 6, turns: float = 180.0) -> Tensor:
    rng = np.random.default_rng(seed)
    low, high = (10, 10, 2, 2, -turns), (50, 30, 16, 16, turns)
    return torch.from_numpy(rng.uniform(low, high, (count, 5)))


def boxes(rows: Tensor, form: str = "CXCYWHR", mode: str | None = None) -> Any:
    typed = tv.BoundingBoxes(
        rows, format="CXCYWHR", canvas_size=(HEIGHT, WIDTH), clamping_mode=mode
    )
    return convert(typed, new_format=form)


def corners(typed: Any) -> np.ndarray:
    return rotated_corners(typed.as_subclass(Tensor).double().numpy(), typed.format.value)


def area(points: np.ndarray) -> Any:
    x, y = np.moveaxis(points, -1, 0)
    return np.abs((x * np.roll(y, -1, -1) - y * np.roll(x, -1, -1)).sum(-1)) / 2


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", PEERS)
def test_equals_torchvision(name: str, form: str) -> None:
    theirs, ours = (PEERS[name](module) for module in (v2, T))
    # Where a side's angle passes 180 degrees, torchvision's rectangle is not around the box.
    given = boxes(random_rows(0, 40, 60.0 if name in ("squeeze", "shear") else 180.0), form)
    expected = theirs(tv.Image(IMAGE), given)[1]
    _, got = ours(tv.Image(IMAGE), given)
    assert (got.format, got.canvas_size) == (expected.format, expected.canvas_size)
    # torchvision computes affine maps in float32.
    np.testing.assert_allclose(corners(got), corners(expected), atol=1e-5)
    if form != "XYXYXYXY":
        turned = (got - expected).as_subclass(Tensor)[:, 4]
        assert ((turned + 180) % 360 - 180).abs().max() < 1e-5


@pytest.mark.parametrize("seed", range(10))
def test_the_rectangle_is_the_smallest_around_the_moved_box(seed: int) -> None:
    """Along its longer side, it touches all four corners; in any format it is the same."""
    given = boxes(random_rows(seed))
    turn = T.RandomAffine((25, 25), (0.0, 0.0), (0.7, 0.7), (20, 20, 5, 5))
    chain = T.Compose([turn, T.RandomHorizontalFlip(1), T.Resize((90, 70))])
    points = corners(given)
    sample = {"image": IMAGE, "boxes": given, "keypoints": torch.from_numpy(points - 0.5)}
    result = chain(sample)
    moved = result["keypoints"].numpy() + 0.5
    for box, quad in zip(corners(result["boxes"]), moved, strict=True):
        along, down = box[1] - box[0], box[3] - box[0]
        assert abs(along @ down) < 1e-9 * area(box)
        assert along[0] * down[1] - along[1] * down[0] > 0  # named in the same direction
        for axis in (along, down):
            positions = (quad - box[0]) @ axis / (axis @ axis)
            np.testing.assert_allclose([positions.min(), positions.max()], [0, 1], atol=1e-9)
        sides = quad[[1, 2]] - quad[[0, 1]]
        longer = sides[np.argmax(np.linalg.norm(sides, axis=1))]
        unit = longer / np.linalg.norm(longer)
        shares = [abs(unit @ axis) / np.linalg.norm(axis) for axis in (along, down)]
        assert max(shares) == pytest.approx(1.0, abs=1e-9)
    for form in FORMATS[1:]:
        other = chain({"image": IMAGE, "boxes": boxes(random_rows(seed), form)})["boxes"]
        assert other.format.value == form
        np.testing.assert_allclose(corners(other), corners(result["boxes"]), atol=1e-9)


@pytest.mark.parametrize("kept", ["keep", "clamp", "sanitize"])
def test_maps_without_shear_keep_quadrilaterals(kept: str) -> None:
    """Corners of annotations that are no exact rectangles, such as DOTA's, move as points do."""
    rows = torch.tensor([[20.0, 10, 30, 12, 29, 20, 18, 17], [25, 15, 32, 14, 33, 22, 26, 21]])
    given = tv.BoundingBoxes(rows.double(), format="XYXYXYXY", canvas_size=(HEIGHT, WIDTH))
    flip = T.Compose([T.RandomHorizontalFlip(1.0)], boxes=kept)
    once = flip({"image": IMAGE, "boxes": given})
    expected = v2.RandomHorizontalFlip(1.0)({"image": tv.Image(IMAGE), "boxes": given})
    np.testing.assert_allclose(once["boxes"], expected["boxes"], atol=1e-12)
    np.testing.assert_allclose(flip(once)["boxes"], given, atol=1e-12)
    steps = [T.Pad(9), T.RandomRotation((25, 25)), T.Resize((116, 156)), T.RandomVerticalFlip(1.0)]
    points = torch.from_numpy(corners(given) - 0.5)
    chain = T.Compose(steps, boxes=kept)
    result = chain({"image": IMAGE, "boxes": given, "keypoints": points})
    moved = result["keypoints"].numpy()[:, [1, 0, 3, 2]] + 0.5
    np.testing.assert_allclose(corners(result["boxes"]), moved, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_clamped_boxes_hold_what_is_seen(seed: int) -> None:
    """Pixels of the canvas that are in a box stay in it, and no smaller box holds them."""
    given = boxes(random_rows(seed))
    chain = T.Compose([T.CenterCrop(20)], boxes="clamp")
    result = corners(chain({"image": IMAGE, "boxes": given})["boxes"])
    kept = corners(T.CenterCrop(20)({"image": IMAGE, "boxes": given})["boxes"])
    grid = np.stack(np.meshgrid(np.linspace(0, 20, 201), np.linspace(0, 20, 201)), -1)
    for box, whole in zip(result, kept, strict=True):
        along, down = whole[1] - whole[0], whole[3] - whole[0]
        points = grid.reshape(-1, 2) - whole[0]
        inside = np.ones(len(points), bool)
        positions = []
        for axis in (along, down):
            position = points @ axis / (axis @ axis)
            inside &= (position >= 0) & (position <= 1)
            positions.append(position)
        if not inside.any():
            continue
        for axis, position in zip((along, down), positions, strict=True):
            ends = (box - whole[0]) @ axis / (axis @ axis)
            step = 0.2 / np.linalg.norm(axis)  # of the grid
            assert ends.min() == pytest.approx(position[inside].min(), abs=step)  # type: ignore[arg-type]
            assert ends.max() == pytest.approx(position[inside].max(), abs=step)  # type: ignore[arg-type]
            assert ends.min() <= position[inside].min() + 1e-9
            assert ends.max() >= position[inside].max() - 1e-9


def test_sanitize_drops_what_is_gone() -> None:
    rows = torch.tensor([[30.0, 20, 8, 4, 30], [2, 2, 4, 2, 45], [20, 20, 10, 10, 45]])
    sample = {"image": IMAGE, "boxes": boxes(rows), "labels": ["middle", "corner", "half"]}
    sample["area"] = torch.tensor([32.0, 8, 100])
    crop = T.RandomAffine((0, 0))  # nothing; the chain's crop follows
    for options, labels in (
        ({}, ["middle", "half"]),
        ({"min_visibility": 0.49}, ["middle", "half"]),
        ({"min_visibility": 0.51}, ["middle"]),
        ({"min_area": 33.0}, ["half"]),
        ({"min_size": 4.1}, ["half"]),
    ):
        chain = T.Compose([crop, T.CenterCrop(20)], boxes="sanitize", **options)
        assert chain(sample)["labels"] == labels, options
    # Its left corner is outside of columns 20 to 40; half of the square is left.
    result = T.Compose([T.CenterCrop(20)], boxes="sanitize")(sample)
    assert result["area"].tolist() == pytest.approx([32.0, 50.0])
    assert T.Compose([T.CenterCrop(20)])(sample)["area"].tolist() == [32, 8, 100]


def test_area_scales() -> None:
    sample = {"image": IMAGE, "boxes": boxes(random_rows(0, 2)), "area": torch.ones(2)}
    assert T.Resize((80, 180))(sample)["area"].tolist() == pytest.approx([6.0, 6.0])


def test_batches_inverse_and_preview() -> None:
    samples = [{"image": IMAGE, "boxes": boxes(random_rows(i, 2 + i).float())} for i in range(3)]
    chain = T.Compose([T.RandomRotation(40), T.Resize((50, 70))], seed=0)
    alone = [chain(s, index=i)["boxes"] for i, s in enumerate(samples)]
    batch = {key: [s[key] for s in samples] for key in ("image", "boxes")}
    for result in (
        chain(batch, index=range(3))["boxes"],
        chain.collate(samples, index=range(3))["boxes"],
    ):
        for got, expected in zip(result, alone, strict=True):
            assert got.dtype == torch.float32
            assert torch.equal(got.as_subclass(Tensor), expected.as_subclass(Tensor))
    turn = T.Compose([T.RandomRotation((25, 25)), T.RandomHorizontalFlip(1)])
    result, params = turn(samples[0], return_params=True)
    back = turn.inverse(result, params)["boxes"]
    np.testing.assert_allclose(corners(back), corners(samples[0]["boxes"]), atol=1e-4)
    figure = T.preview(T.Pad(0), samples[0], n=1)
    expected = corners(samples[0]["boxes"])[0] - 0.5
    np.testing.assert_allclose(figure.axes[0].patches[0].get_xy()[:4], expected, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_perspective(seed: int) -> None:
    given = boxes(random_rows(seed))
    points = torch.from_numpy(corners(given) - 0.5)
    chain = T.Compose([T.RandomPerspective(0.6, 1)], seed=seed)
    result = chain({"image": IMAGE, "boxes": given, "keypoints": points})
    for box, quad in zip(corners(result["boxes"]), result["keypoints"].numpy() + 0.5, strict=True):
        for axis in (box[1] - box[0], box[3] - box[0]):
            positions = (quad - box[0]) @ axis / (axis @ axis)
            np.testing.assert_allclose([positions.min(), positions.max()], [0, 1], atol=1e-7)


def test_mixing() -> None:
    rows = torch.tensor([[15.0, 20, 10, 4, 0]])
    batch = {
        "image": torch.stack([IMAGE, IMAGE]),
        "boxes": [boxes(rows), boxes(rows + torch.tensor([30.0, 0, 0, 0, 90]))],
        "labels": [["left"], ["right"]],
    }
    edges = {"left": 0.0, "top": 0.0, "right": 30.0, "bottom": 40.0}
    step = {name: np.full(2, edge) for name, edge in edges.items()}
    params = T.Parameters(["CutMix"], [step], np.array([[HEIGHT, WIDTH]] * 2))
    result = T.CutMix()(batch, params=params)
    assert result["labels"] == [[], ["right", "left"]]
    assert [len(b) for b in T.MixUp()(batch)["boxes"]] == [2, 2]
    canvas = T.Mosaic((HEIGHT, WIDTH), center=(1, 1), fill=0)(batch)
    np.testing.assert_allclose(corners(canvas["boxes"][0])[0], corners(batch["boxes"][0])[0])  # type: ignore[index]
    assert canvas["boxes"][0].canvas_size == (2 * HEIGHT, 2 * WIDTH)


FLIPS: list[list[Any]] = [
    [T.RandomHorizontalFlip(1)],
    [T.RandomHorizontalFlip(1), T.GaussianBlur(3), T.RandomHorizontalFlip(1)],
    [T.RandomVerticalFlip(1), T.GaussianBlur(3), T.ConvertBoundingBoxFormat("XYXYXYXY")],
    [
        T.RandomChoice([T.RandomHorizontalFlip(1), T.RandomVerticalFlip(1)]),
        T.RandomRotation((180, 180)),
    ],
]


@pytest.mark.parametrize("steps", FLIPS, ids=["one", "two", "format", "container"])
@pytest.mark.parametrize("batched", [False, True])
def test_shares_are_those_of_the_object(steps: list[Any], batched: bool) -> None:
    """What sticks out of the image is lost once, however often it is clipped."""
    rows = random_rows(3, 40)
    rows[:, :2] = rows[:, :2] * 2 - 25  # many at the rim
    given = boxes(rows)
    points = np.stack(np.meshgrid(np.arange(0.0, WIDTH, 0.25), np.arange(0.0, HEIGHT, 0.25)), -1)
    expected = []
    for box in corners(given):
        axes, at = (box[1] - box[0], box[3] - box[0]), points.reshape(-1, 2) + 0.125 - box[0]
        inside = [(at @ axis >= 0) & (at @ axis <= axis @ axis) for axis in axes]
        expected.append((inside[0] & inside[1]).sum() / 16.0)
    sample = {"image": IMAGE, "boxes": given, "area": torch.from_numpy(area(corners(given)))}
    chain = T.Compose(steps, boxes="clamp", seed=0)
    found = chain.collate([sample, sample])["area"][1] if batched else chain(sample)["area"]
    np.testing.assert_allclose(found.numpy(), expected, atol=1.5)


def test_shares_in_mosaics_and_cut_mix() -> None:
    """Tiles and rectangles take from the object, not from the box around what is left of it."""
    rows = random_rows(5, 30)
    rows[:, :2] = rows[:, :2] * 2 - 25
    sample = {
        "image": IMAGE,
        "boxes": boxes(rows),
        "area": torch.ones(30),
        "labels": list(range(30)),
    }
    batch = T.Compose([T.RandomHorizontalFlip(0.0)], boxes="sanitize").collate([sample] * 4)
    shares = dict(zip(batch["labels"][0], batch["area"][0].tolist(), strict=True))
    for mix in (T.Mosaic((HEIGHT, WIDTH), fill=0, seed=0), T.CutMix(num_classes=2, seed=0)):
        found = mix(
            {
                "image": torch.stack([IMAGE] * 4),
                **{k: [sample[k]] * 4 for k in sample if k != "image"},
            }
        )
        for labels, areas in zip(found["labels"], found["area"], strict=True):
            for label in shares:
                pieces = [a for own, a in zip(labels, areas.tolist(), strict=True) if own == label]
                assert all(a <= shares[label] + 1e-5 for a in pieces), mix
