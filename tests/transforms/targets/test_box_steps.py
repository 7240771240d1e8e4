"""ConvertBoundingBoxFormat, ClampBoundingBoxes and SanitizeBoundingBoxes against torchvision's."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check, table
from torch import Tensor
from visops import transforms
from visops import transforms as T

tv = pytest.importorskip("torchvision.tv_tensors")
v2 = pytest.importorskip("torchvision.transforms.v2")

SIZE = (40, 60)
IMAGE = torch.rand(3, *SIZE)
UPRIGHT = ["XYXY", "XYWH", "CXCYWH"]
ROTATED = ["XYWHR", "CXCYWHR", "XYXYXYXY"]


def typed(form: str, count: int = 12, dtype: torch.dtype = torch.float32, **more: Any) -> Any:
    rng = np.random.default_rng(1)
    first = rng.uniform(-15, 55, (count, 2))
    rows = np.concatenate((first, rng.uniform(0.2, 30, (count, 2))), 1)
    if form in ROTATED:
        rows = np.concatenate((rows, rng.uniform(-180, 180, (count, 1))), 1)
    base = "XYWHR" if form in ROTATED else "XYWH"
    boxes = tv.BoundingBoxes(
        torch.from_numpy(rows).to(dtype), format=base, canvas_size=SIZE, **more
    )
    return v2.functional.convert_bounding_box_format(boxes, new_format=form)


@pytest.mark.parametrize(
    "name", ["ConvertBoundingBoxFormat", "ClampBoundingBoxes", "SanitizeBoundingBoxes"]
)
def test_signatures(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(m, name)).parameters for m in (T, v2))
    assert [(p.name, p.default) for p in ours.values()] == [
        (p.name, p.default) for p in theirs.values()
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [(a, b) for group in (UPRIGHT, ROTATED) for a in group for b in group],
)
def test_conversion(old: str, new: str) -> None:
    boxes = typed(old)
    expected = v2.ConvertBoundingBoxFormat(new)(boxes)
    for got in (
        T.ConvertBoundingBoxFormat(new)(boxes),  # without an image, as there
        T.ConvertBoundingBoxFormat(new.lower())(tv.Image(IMAGE), boxes)[1],
        T.ConvertBoundingBoxFormat(tv.BoundingBoxFormat[new])({"image": IMAGE, "b": boxes})["b"],
    ):
        assert got.format == expected.format
        assert got.canvas_size == SIZE
        torch.testing.assert_close(
            got.as_subclass(Tensor), expected.as_subclass(Tensor), rtol=1e-5, atol=2e-5
        )


def test_conversion_anywhere_in_a_chain() -> None:
    """Boxes move on in their new format, in the same pass."""
    boxes = typed("XYXY")
    steps: list[Any] = [T.RandomHorizontalFlip(1), T.Resize((80, 90)), T.Pad(3)]
    expected = T.Compose([*steps, T.ConvertBoundingBoxFormat("CXCYWH")])(tv.Image(IMAGE), boxes)[1]
    for index in range(3):
        chain = T.Compose([*steps[:index], T.ConvertBoundingBoxFormat("CXCYWH"), *steps[index:]])
        assert len(chain.passes) == 1
        got = chain(tv.Image(IMAGE), boxes)[1]
        assert got.format.value == "CXCYWH"
        torch.testing.assert_close(got.as_subclass(Tensor), expected.as_subclass(Tensor))


def test_plain_boxes_are_converted() -> None:
    boxes = torch.tensor([[[10, 5, 31, 25]], [[0, 0, 2, 2]]])
    sample = {"image": torch.stack([IMAGE, IMAGE]), "boxes": boxes}
    chain = T.Compose([T.RandomHorizontalFlip(1), T.ConvertBoundingBoxFormat("CXCYWH")])
    # Centres of 39.5 are rounded to even, at the end.
    assert chain(sample)["boxes"].tolist() == [[[40, 15, 21, 20]], [[59, 1, 2, 2]]]
    halves = chain({**sample, "boxes": boxes.float()})["boxes"]
    assert halves[0].tolist() == [[39.5, 15, 21, 20]]
    assert chain({**sample, "boxes": boxes.float().numpy()})["boxes"].dtype == np.float32


@pytest.mark.parametrize("form", UPRIGHT)
@pytest.mark.parametrize("mode", ["auto", "soft", "hard", None])
@pytest.mark.parametrize("own", ["soft", "hard", None])
def test_clamping(form: str, mode: str | None, own: str | None) -> None:
    boxes = typed(form, clamping_mode=own)
    expected = v2.ClampBoundingBoxes(mode)(boxes)
    got = T.ClampBoundingBoxes(mode)(boxes)
    assert got.clamping_mode == expected.clamping_mode
    torch.testing.assert_close(
        got.as_subclass(Tensor), expected.as_subclass(Tensor), rtol=1e-5, atol=2e-5
    )
    _, again = T.Compose([T.ClampBoundingBoxes(mode), T.RandomHorizontalFlip(1)])(
        tv.Image(IMAGE), boxes
    )
    flipped = v2.RandomHorizontalFlip(1)(expected)
    torch.testing.assert_close(
        again.as_subclass(Tensor), flipped.as_subclass(Tensor), rtol=1e-5, atol=2e-5
    )


@pytest.mark.parametrize("form", UPRIGHT)
def test_sanitizing(form: str) -> None:
    boxes = typed(form, 40)
    for clamp in (False, True):
        for sizes in ({}, {"min_size": 4.0}, {"min_area": 100.0}):
            sample = {
                "image": tv.Image(IMAGE),
                "boxes": boxes,
                "labels": torch.arange(40),
                "masks": tv.Mask(torch.arange(40)[:, None, None].expand(-1, *SIZE)),
            }
            steps = (
                [m.ClampBoundingBoxes() for m in (v2, T)] if clamp else [v2.Identity(), T.Pad(0)]
            )
            expected = v2.Compose([steps[0], v2.SanitizeBoundingBoxes(**sizes)])(sample)
            got = T.Compose([steps[1], T.SanitizeBoundingBoxes(**sizes)])(sample)
            assert 0 < len(expected["labels"]) < 40
            assert torch.equal(got["labels"], expected["labels"])
            assert torch.equal(got["masks"][:, 0, 0], expected["masks"][:, 0, 0])
            torch.testing.assert_close(
                got["boxes"].as_subclass(Tensor),
                expected["boxes"].as_subclass(Tensor),
                rtol=1e-5,
                atol=2e-5,
            )


def test_everything_goes_with_a_box() -> None:
    square = [1.0, 1, 9, 1, 9, 9, 1, 9]
    sample = {
        "image": IMAGE,
        "boxes": [[1, 1, 9, 9], [50, 5, 70, 9], [20, 20, 20.5, 30]],
        "labels": ["kept", "beyond", "thin"],
        "difficult": torch.tensor([0, 1, 2]),
        "segmentation": [[square]] * 3,
        "area": np.array([64.0, 1, 1]),
        "name": "a photo",
    }
    result = T.SanitizeBoundingBoxes()(sample)
    assert result["labels"] == ["kept"]
    assert result["difficult"].tolist() == [0]
    assert result["segmentation"] == [[square]]
    assert result["area"].tolist() == [64.0]
    assert result["name"] == "a photo"
    alone = T.SanitizeBoundingBoxes(labels_getter=None)(sample)
    assert (len(alone["boxes"]), len(alone["segmentation"]), len(alone["labels"])) == (1, 1, 3)
    batch = {key: [value] * 2 for key, value in sample.items()}
    assert T.SanitizeBoundingBoxes()(batch)["labels"] == [["kept"]] * 2
    clamped = T.Compose([T.ClampBoundingBoxes(), T.SanitizeBoundingBoxes()])(sample)
    assert clamped["labels"] == ["kept", "beyond"]
    assert clamped["area"].tolist() == [64.0, 0.5]


def test_rotated_boxes() -> None:
    rows = torch.tensor([[30.0, 20, 10, 6, 30], [-2, 20, 10, 6, 45], [30, 20, 0.5, 9, 10]])
    boxes = tv.BoundingBoxes(rows, format="CXCYWHR", canvas_size=SIZE)
    sample = {"image": IMAGE, "boxes": boxes, "labels": ["kept", "beyond", "thin"]}
    assert T.SanitizeBoundingBoxes()(sample)["labels"] == ["kept"]
    clamped = T.ClampBoundingBoxes()(boxes)
    assert torch.equal(clamped[0], boxes[0])
    assert clamped[1, 4] == 45
    assert clamped[1, 2] * clamped[1, 3] < 60
    assert torch.equal(T.ClampBoundingBoxes(None)(boxes), boxes)


def test_passes() -> None:
    """Only geometry after a cut needs another pass."""
    clamp, to_float = T.ClampBoundingBoxes(), T.ToDtype(torch.float32, scale=True)
    one = T.Compose([T.RandomResizedCrop(20), clamp, T.SanitizeBoundingBoxes(), to_float])
    assert len(one.passes) == 1
    two = T.Compose([T.CenterCrop(20), clamp, T.Pad(5)])
    assert [p.reason for p in two.passes] == ["", "Pad moves targets after ClampBoundingBoxes"]
    result = two({"image": IMAGE, "boxes": [[0.0, 0.0, 60.0, 40.0]]})
    assert result["boxes"] == [[5.0, 5.0, 25.0, 25.0]]


def test_parameters_and_containers() -> None:
    chain = T.Compose([T.RandomRotation(20), T.ClampBoundingBoxes(), T.SanitizeBoundingBoxes()])
    sample = {"image": IMAGE, "boxes": torch.tensor([[1.0, 1, 30, 20]]), "labels": [3]}
    result, params = chain(sample, return_params=True)
    again = chain(sample, params=params)
    assert params.names == ["RandomRotation", "ClampBoundingBoxes", "SanitizeBoundingBoxes"]
    assert torch.equal(again["boxes"], result["boxes"])
    assert chain.inverse(result, params)["boxes"].shape == (1, 4)
    sometimes = T.Compose([T.RandomApply([T.ClampBoundingBoxes(), T.Pad(1)], p=1.0)])
    moved = sometimes({"image": IMAGE, "boxes": [[-5.0, 2.0, 9.0, 9.0]]})
    assert moved["boxes"] == [[1.0, 3.0, 10.0, 10.0]]


@table(
    (
        ValueError,
        "transforms.ConvertBoundingBoxFormat: format is 'XYWHR', the sample has XYXY; must be "
        "rotated for rotated boxes only",
        lambda: T.ConvertBoundingBoxFormat("XYWHR")(typed("XYXY")),
    ),
    (
        ValueError,
        "transforms.ClampBoundingBoxes: clamping_mode is 'hard', the sample has rotated boxes",
        lambda: T.ClampBoundingBoxes("hard")(typed("XYWHR")),
    ),
    (
        ValueError,
        "transforms: sample['boxes'] has shape [2, 1, 4]; must be a list of each sample's boxes",
        lambda: T.SanitizeBoundingBoxes()(
            {"image": torch.zeros(2, 3, 9, 9), "boxes": torch.zeros(2, 1, 4)}
        ),
    ),
    (
        ValueError,
        "transforms.SanitizeBoundingBoxes: the samples of a batch run one by one here, and labels",
        lambda: T.Compose([T.RandomOrder([T.SanitizeBoundingBoxes(), T.Pad(1)])])(
            {
                "image": torch.zeros(2, 3, 9, 9),
                "boxes": [torch.zeros(1, 4)] * 2,
                "labels": [[1]] * 2,
            }
        ),
    ),
)
def test_bad_input(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.CenterCrop((20, 20)),
        lambda m: m.RandomApply([m.CenterCrop((20, 20))], p=1.0),
        lambda m: m.RandomOrder([m.CenterCrop((20, 20))]),
        lambda m: v2.RandomOrder([v2.CenterCrop((20, 20))]),
    ],
)
@pytest.mark.parametrize("mode", ["soft", None])
def test_moved_boxes_are_clamped_before(make: Any, mode: str | None) -> None:
    """As torchvision's crops clamp them: its recipes drop no box that is cut."""
    boxes = [[2.0, 12.0, 25.0, 30.0], [0.0, 0.0, 9.0, 40.0], [22.0, 12.0, 28.0, 18.0]]

    def run(module: Any) -> Any:
        typed = tv.BoundingBoxes(boxes, format="XYXY", canvas_size=(40, 50))
        typed.clamping_mode = mode
        sample = {"image": tv.Image(torch.zeros(3, 40, 50)), "boxes": typed}
        sample["labels"] = torch.arange(3)
        return module.Compose([make(module), module.SanitizeBoundingBoxes()])(sample)

    ours, theirs = run(T), run(v2)
    assert ours["labels"].tolist() == theirs["labels"].tolist() == ([0, 2] if mode else [2])
    assert torch.equal(ours["boxes"], theirs["boxes"])
    plain = {"image": torch.zeros(3, 40, 50), "boxes": boxes, "labels": ["a", "b", "c"]}
    found = T.Compose([make(T), T.SanitizeBoundingBoxes()])(plain)
    assert found["labels"] == ["a", "c"]
    assert found["boxes"] == [[0.0, 2.0, 10.0, 20.0], [7.0, 2.0, 13.0, 8.0]]


def test_bent_boxes_are_clamped_before() -> None:
    sample = {"image": torch.zeros(3, 40, 50), "boxes": [[0.0, 0.0, 50.0, 40.0]], "labels": [3]}
    chain = T.Compose([T.ElasticTransform(300.0, 5.0), T.SanitizeBoundingBoxes()], seed=0)
    for index in range(8):
        assert chain(sample, index=index)["labels"] == [3]


@pytest.mark.parametrize("getter", [None, "default"])
def test_key_points_outside_are_dropped(getter: Any) -> None:
    rng = torch.Generator().manual_seed(0)
    for shape in ((9, 2), (9, 3, 2)):
        points = tv.KeyPoints(torch.rand(shape, generator=rng) * 70 - 5, canvas_size=(40, 60))
        sample = {"image": tv.Image(torch.zeros(3, 40, 60)), "keypoints": points}
        sample["labels"] = torch.arange(9)
        theirs, ours = (module.SanitizeKeyPoints(getter)(sample) for module in (v2, T))
        assert 0 < len(theirs["keypoints"]) < 9
        assert torch.equal(ours["keypoints"], theirs["keypoints"])
        assert torch.equal(ours["labels"], theirs["labels"])
        assert torch.equal(T.SanitizeKeyPoints()(points), theirs["keypoints"])  # without an image
    values = [points[:4], points.as_subclass(Tensor)]
    found = T.SanitizeKeyPoints()({"image": torch.zeros(2, 3, 40, 60), "keypoints": values})
    for own, value in zip(found["keypoints"], values, strict=True):
        typed = tv.KeyPoints(value, canvas_size=(40, 60))
        assert torch.equal(own, v2.SanitizeKeyPoints()(typed))


def test_key_points_that_cannot_be_dropped() -> None:
    points = torch.zeros(2, 5, 2)
    image = torch.zeros(3, 40, 60)
    with pytest.raises(ValueError, match="belong to boxes, and would be fewer"):
        T.SanitizeKeyPoints()({"image": image, "boxes": torch.ones(2, 4), "keypoints": points})
    with pytest.raises(ValueError, match=r"must be a list of each sample's key points"):
        T.SanitizeKeyPoints()({"image": image.expand(2, -1, -1, -1), "keypoints": points})
    with pytest.raises(ValueError, match="labels'] hasn't an entry for each of"):
        T.SanitizeKeyPoints("default")({"image": image, "keypoints": points, "labels": [1]})
    with pytest.raises(TypeError, match="labels_getter is 3, must be 'default' or None"):
        T.SanitizeKeyPoints(3)


def test_targets_that_say_their_image_s_size_need_no_image() -> None:
    size = (40, 60)
    boxes = tv.BoundingBoxes([[2.0, 3, 10, 12]], format="XYXY", canvas_size=size)
    mask = tv.Mask(torch.randint(0, 9, size))
    points = tv.KeyPoints(torch.tensor([[2.0, 3], [50, 20]]), canvas_size=size)
    steps = [
        T.RandomResizedCrop(20),
        T.ColorJitter(0.4),
        T.GaussianBlur(3),
        T.RandomHorizontalFlip(),
    ]
    steps += [T.ToDtype(torch.float32, scale=True), T.Normalize([0.5] * 3, [0.5] * 3)]
    chain = T.Compose(steps, seed=0)
    image = torch.zeros(3, *size, dtype=torch.uint8)
    for name, target in (("boxes", boxes), ("mask", mask), ("keypoints", points)):
        expected = chain({"image": image, name: target}, index=1)[name]
        for sample in (target, {name: target}, (target, 7), {name: target, "labels": [1]}):
            found: Any = chain(sample, index=1)
            if isinstance(found, dict):
                assert set(sample) == set(found) - {"keypoints_visible"}
                found = found[name]
            found = found[0] if isinstance(found, tuple) else found
            assert type(found) is type(target)
            assert torch.equal(found, expected)
    with pytest.raises(TypeError, match="found no image in the sample"):
        chain({"boxes": torch.ones(1, 4)}, index=0)


UNTYPED: Any = transforms  # arguments of any type

HEIGHT, WIDTH = 40, 60
BLANK = torch.zeros(3, HEIGHT, WIDTH)
SIDES = np.array([WIDTH, HEIGHT, WIDTH, HEIGHT])
FORMATS = ["xyxy", "xywh", "cxcywh", "yolo", "albumentations"]
STEPS: list[Any] = [
    UNTYPED.RandomHorizontalFlip(1.0),
    UNTYPED.RandomCrop((30, 30)),
    UNTYPED.GaussianBlur(3),
    UNTYPED.Resize((48, 20)),
]


def corners_as(corners: np.ndarray, form: str, size: tuple[int, int]) -> np.ndarray:
    low, high = corners[:, :2], corners[:, 2:]
    first = (low + high) / 2 if form in ("cxcywh", "yolo") else low
    second = high if form in ("xyxy", "albumentations") else high - low
    rows = np.concatenate((first, second), 1)
    shares = form in ("yolo", "albumentations")
    return rows / np.tile(size[::-1], 2) if shares else rows


def corners(seed: int, count: int = 12) -> np.ndarray:
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 1, (count, 2, 2)) * (WIDTH, HEIGHT)
    return np.concatenate((points.min(1), points.max(1)), 1)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("options", [{}, {"boxes": "sanitize", "min_visibility": 0.3}], ids=str)
def test_every_format_moves_alike(form: str, options: dict[str, Any]) -> None:
    chain = UNTYPED.Compose(STEPS, seed=0, box_format=form, **options)
    plain = UNTYPED.Compose(STEPS, seed=0, **options)
    for index in range(4):
        given = corners(index)
        expected = plain({"image": BLANK, "boxes": torch.from_numpy(given)}, index=index)["boxes"]
        expected = corners_as(expected.numpy(), form, (48, 20))
        own = corners_as(given, form, (HEIGHT, WIDTH))
        for value in (torch.from_numpy(own), torch.from_numpy(own).float(), own, own.tolist()):
            found = chain({"image": BLANK, "boxes": value}, index=index)["boxes"]
            assert type(found) is type(value)
            np.testing.assert_allclose(found, expected, atol=1e-4)
    batch: dict[str, Any] = {
        "image": torch.stack([BLANK] * 2),
        "boxes": [corners_as(corners(i), form, (HEIGHT, WIDTH)) for i in (0, 1)],
    }
    found = chain(batch, index=[0, 1])["boxes"]
    for index in (0, 1):
        one = chain({"image": BLANK, "boxes": batch["boxes"][index]}, index=index)["boxes"]
        np.testing.assert_allclose(found[index], one)
    if not options:
        dense = chain({**batch, "boxes": np.stack(batch["boxes"])}, index=[0, 1])["boxes"]
        np.testing.assert_allclose(dense, np.stack(found))


def test_what_says_its_format_keeps_it() -> None:
    flip = UNTYPED.Compose([UNTYPED.RandomHorizontalFlip(1.0)], box_format="yolo")
    typed = tv.BoundingBoxes([[10.0, 5, 30, 25]], format="XYXY", canvas_size=(HEIGHT, WIDTH))
    assert flip({"image": BLANK, "boxes": typed})["boxes"].tolist() == [[30, 5, 50, 25]]
    annotation = {"bbox": [10, 5, 20, 20], "category_id": 1, "area": 4}
    assert flip((BLANK, [annotation]))[1][0]["bbox"] == [30, 5, 20, 20]


def test_inverse() -> None:
    chain = UNTYPED.Compose([UNTYPED.Letterbox((64, 64), fill=0)], box_format="yolo")
    given = corners_as(corners(0), "yolo", (HEIGHT, WIDTH))
    out, params = chain({"image": BLANK, "boxes": given}, return_params=True)
    back = chain.inverse({"image": out["image"], "boxes": out["boxes"]}, params)["boxes"]
    np.testing.assert_allclose(back, given, atol=1e-6)


@pytest.mark.parametrize(
    "value", [[[0.1, 0.1, 0.4, 0.4]], [[0.0, 0.0, 1.0, 1.0], [0.2, 0.3, 0.4, 0.9]]]
)
@pytest.mark.parametrize("form", ["tensor", "array", "list", "dense"])
def test_shares_are_refused_where_pixels_are_meant(value: Any, form: str) -> None:
    make: Any = {
        "tensor": torch.tensor,
        "array": np.array,
        "list": list,
        "dense": lambda v: np.array([v, v]),
    }
    image = torch.stack([BLANK] * 2) if form == "dense" else BLANK
    for options in ({}, {"boxes": "sanitize"} if form != "dense" else {"boxes": "clamp"}):
        chain = UNTYPED.Compose([UNTYPED.RandomHorizontalFlip(1.0)], **options)
        with pytest.raises(ValueError, match=r"lies within \[0, 1\] of an image of 40 rows and 60"):
            chain({"image": image, "boxes": make[form](value)})
    corner = [[0, 0, 1, 1]], [[0.0, 0.0, 1.0, 1.0]], [[0.5, 0.5, 9.5, 3.5]], np.zeros((0, 4))
    for allowed in corner:
        UNTYPED.Compose([UNTYPED.RandomHorizontalFlip(1.0)])({"image": BLANK, "boxes": allowed})


def test_bad_input_of_formats() -> None:
    with pytest.raises(ValueError, match="box_format is 'coco', must be one of 'xyxy', 'xywh'"):
        UNTYPED.Compose([UNTYPED.Resize(8)], box_format="coco")
    with pytest.raises(TypeError, match="has dtype int64, must be floating: box_format='yolo'"):
        UNTYPED.Compose([UNTYPED.Resize(8)], box_format="yolo")(
            {"image": BLANK, "boxes": np.array([[1, 1, 1, 1]])}
        )


@pytest.mark.parametrize("form", ["yolo", "albumentations"])
@pytest.mark.parametrize("options", [{}, {"boxes": "sanitize"}], ids=str)
def test_pixels_are_no_shares(form: Any, options: Any) -> None:
    chain = UNTYPED.Compose([UNTYPED.RandomHorizontalFlip(1.0)], box_format=form, **options)
    pixels = [[0.5, 0.5, 0.2, 0.2], [30, 20, 10, 10]]
    for boxes in (pixels, np.array(pixels), torch.tensor(pixels)):
        with pytest.raises(ValueError, match=r"boxes far beyond \[0, 1\]; must be in shares"):
            chain({"image": BLANK, "boxes": boxes})
    chain({"image": BLANK, "boxes": [[-0.2, 0.5, 1.4, 1.3]]})  # beyond the image


@pytest.mark.parametrize("form", FORMATS)
def test_mixes(form: str) -> None:
    tall, wide = (HEIGHT, WIDTH), (30, 70)
    boxes = [corners(0), corners(1) * ((wide[1] / WIDTH, wide[0] / HEIGHT) * 2)]
    masks = [torch.ones(12, *size, dtype=torch.uint8) for size in (tall, wide)]
    for name in ("Mosaic", "CutMix", "MixUp", "CopyPaste"):
        sizes = (tall, wide) if name in ("Mosaic", "CopyPaste") else (tall, tall)
        results = []
        for own in (form, "xyxy"):
            arguments = {"size": 32, "fill": 0} if name == "Mosaic" else {}
            mix = getattr(UNTYPED, name)(**arguments, seed=0, box_format=own)
            rows = [corners_as(b, own, size) for b, size in zip(boxes, sizes, strict=True)]
            batch = {"image": [torch.zeros(3, *size) for size in sizes], "boxes": rows}
            batch["labels"] = [list(range(12)), list(range(12, 24))]
            if name == "CopyPaste":
                batch["masks"] = masks
            results.append(mix(batch))
        found, expected = results
        assert found["labels"] == expected["labels"]
        for index, rows in enumerate(found["boxes"]):
            size = tuple(found["image"][index].shape[-2:])
            np.testing.assert_allclose(
                rows, corners_as(np.array(expected["boxes"][index]), form, size), atol=1e-9
            )
