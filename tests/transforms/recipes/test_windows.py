"""albumentations' crops, padding, scales and tilts: parts of an image, beside the original's."""

from typing import Any

import cv2
import numpy as np
import pytest
import torch
from bad_input import check, table
from torch import Tensor
from visops import transforms as T
from visops.transforms import Parameters

A = pytest.importorskip("albumentations")

HEIGHT, WIDTH = 40, 60
PHOTO = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
MASK = PHOTO[..., 0] // 64
DRAWS = 400
BOXES = torch.tensor([[20.0, 10, 31, 22.5], [35, 12, 50, 30]])
# Rows and columns of each pixel: a crop shows where it was.
PLACES = torch.stack(
    torch.meshgrid(torch.arange(HEIGHT), torch.arange(WIDTH), indexing="ij")
).double()


def images(result: Any) -> tuple[np.ndarray, np.ndarray]:
    return result["image"].movedim(0, -1).numpy(), np.asarray(result["mask"])


@pytest.mark.parametrize(
    "make",
    [
        lambda A: A.Crop(3, 5, 33, 21),
        lambda A: A.Crop(0, 0, WIDTH, HEIGHT, p=0.0),
        *(
            lambda A, own=own: A.PadIfNeeded(51, 60, position=own, fill=9, fill_mask=2)
            for own in ("center", "top_left", "top_right", "bottom_left", "bottom_right")
        ),
        lambda A: A.PadIfNeeded(None, None, 16, 7, fill=(1, 2, 3)),
        lambda A: A.PadIfNeeded(64, 101, border_mode=4),
        lambda A: A.CropAndPad(px=3, keep_size=False, fill=7, fill_mask=1),
        lambda A: A.CropAndPad(px=(4, -3, 2, -1), keep_size=False),
        lambda A: A.CropAndPad(percent=(-0.1, 0.2, -0.3, 0.15), keep_size=False, border_mode=1),
        lambda A: A.CropAndPad(px=[(-3, -2), (2, 3), (-1, 0), (4, 5)], keep_size=False),
        lambda A: A.CropAndPad(px=-4),
        lambda A: A.CropAndPad(percent=0.2, border_mode=1),
        lambda A: A.RandomScale((0.5, 0.5), p=1),
        lambda A: A.RandomScale((-0.3, -0.3), p=1),
        lambda A: A.RandomSizedCrop((100, 100), (30, 50), w2h_ratio=3.0),
        lambda A: A.HueSaturationValue((17, 17), (-20, -20), (30, 30), p=1),
        lambda A: A.HueSaturationValue((-90, -90), (50, 50), (-60, -60), p=1),
        lambda A: A.PixelDropout(1.0, p=1),
        lambda A: A.XYMasking((1, 1), (0, 0), (WIDTH, WIDTH), (1, 1), fill=5, p=1),
    ],
)
def test_what_is_not_drawn_is_albumentations(make: Any) -> None:
    theirs = make(A)
    chain = T.convert(theirs, seed=0, exact=True)
    assert type(chain.transforms[0]).__module__.startswith("visops")
    expected = theirs(image=PHOTO, mask=MASK)
    image, mask = images(chain({"image": PHOTO, "mask": MASK}, index=0))
    distance = np.abs(image.astype(int) - expected["image"])
    # OpenCV's vector code cuts values of HSV off that its scalar code rounds.
    assert distance.max() <= (3 if "Hue" in type(theirs).__name__ else 1)
    assert distance.mean() < 0.6
    if getattr(chain.transforms[0], "interpolation", None) is None:  # else others are nearest
        assert np.array_equal(mask, expected["mask"])


def windows(theirs: Any, boxes: Tensor | None = None, mask: Any = None) -> Any:
    """Return top, left, height and width of many draws, of ours and of theirs, ``[2, N, 4]``."""
    chain = T.convert(theirs, seed=0)
    sample: dict[str, Any] = {"image": PLACES}
    if boxes is not None:
        sample["boxes"] = boxes
    if mask is not None:
        sample["mask"] = mask
    ours = []
    for index in range(DRAWS):
        found = chain(sample, index=index)["image"]
        ours.append((*found[:, 0, 0].tolist(), *found.shape[1:]))
    params = {"shape": (HEIGHT, WIDTH, 3)}
    data: dict[str, Any] = {"image": PHOTO, "mask": None if mask is None else mask.numpy()}
    shares = () if boxes is None else boxes.numpy() / np.array([WIDTH, HEIGHT] * 2)
    data["bboxes"] = np.array(shares)
    theirs.set_random_seed(0)
    expected = []
    for _ in range(DRAWS):
        x1, y1, x2, y2 = theirs.get_params_dependent_on_data(params, data)["crop_coords"]
        expected.append((y1, x1, y2 - y1, x2 - x1))
    return np.array([ours, expected], float)


@pytest.mark.parametrize(
    ("make", "beside"),
    [
        (lambda A: A.RandomCropFromBorders(0.3, 0.2, 0.1, 0.5), {}),
        (lambda A: A.RandomCropFromBorders(0.9, 0.1, 0.0, 0.0), {}),
        (lambda A: A.BBoxSafeRandomCrop(), {"boxes": BOXES}),
        (lambda A: A.BBoxSafeRandomCrop(0.4), {"boxes": BOXES}),
        (lambda A: A.BBoxSafeRandomCrop(0.7), {"boxes": BOXES[:0]}),
        (lambda A: A.BBoxSafeRandomCrop(1.0), {"boxes": BOXES}),
        (lambda A: A.AtLeastOneBBoxRandomCrop(20, 16), {"boxes": BOXES}),
        (lambda A: A.AtLeastOneBBoxRandomCrop(20, 16, 0.6), {"boxes": BOXES}),
        (lambda A: A.AtLeastOneBBoxRandomCrop(20, 16, 1.0), {"boxes": BOXES[:1]}),
        (lambda A: A.AtLeastOneBBoxRandomCrop(20, 16), {"boxes": BOXES[:0]}),
        (lambda A: A.CropNonEmptyMaskIfExists(12, 20, [3]), {"mask": (PLACES[0] > 30) + 0}),
        (lambda A: A.CropNonEmptyMaskIfExists(12, 20, [1]), {"mask": (PLACES[0] > 30) + 0}),
    ],
)
def test_windows_are_drawn_as_albumentations(make: Any, beside: dict[str, Any]) -> None:
    ours, theirs = windows(make(A), **beside)
    for found, expected in zip(ours.T, theirs.T, strict=True):
        # Safe crops round outwards here.
        spread = max(expected.std(), 0.3)
        assert abs(found.mean() - expected.mean()) < 4 * spread / DRAWS**0.5 + 1.0
        assert found.std() == pytest.approx(expected.std(), rel=0.15, abs=0.5)
        for ends in (0.02, 0.98):
            far = abs(np.quantile(found, ends) - np.quantile(expected, ends))
            assert far <= 0.3 * spread + 2


@pytest.mark.parametrize("ratio", [0.5, 1.5])
def test_sized_crops_read_what_they_record(ratio: float) -> None:
    step = T.RandomSizedCrop((8, 30), (24, 32), ratio, antialias=False)
    chain = T.Compose([step], seed=1, exact=True)
    heights = []
    for index in range(50):
        found, params = chain(PHOTO, index=index, return_params=True)
        top, left, rows, columns = (
            int(params.steps[0][name][0]) for name in ("top", "left", "height", "width")
        )
        assert columns == int(rows * ratio)
        part = PHOTO[top : top + rows, left : left + columns]
        expected = cv2.resize(part, (32, 24))
        distance = np.abs(found.movedim(0, -1).numpy().astype(int) - expected)
        assert distance.max() <= 1
        heights.append(rows)
    assert min(heights) <= 10
    assert max(heights) >= 28


@pytest.mark.parametrize("angle", [0.0, 30.0, 90.0, -135.0])
def test_safe_rotation(angle: float) -> None:
    """Their images lie up to half a pixel beside ours; boxes move as theirs."""
    theirs = A.SafeRotate((angle, angle), p=1)
    points = np.array([[0.0, 0], [WIDTH, 0], [17, 23]])
    matrix = theirs.get_params_dependent_on_data({"shape": PHOTO.shape}, {})
    expected = cv2.transform(points[None], matrix["bbox_matrix"][:2])[0]
    chain = T.Compose([T.SafeRotate((angle, angle), p=1)], keypoint_convention="half_pixel")
    sample = {"image": PHOTO, "keypoints": torch.from_numpy(points)}
    result, params = chain(sample, return_params=True)
    np.testing.assert_allclose(result["keypoints"], expected, atol=1e-9)
    assert result["image"].shape == (3, HEIGHT, WIDTH)
    back = chain.inverse({"keypoints": result["keypoints"]}, params)["keypoints"]
    np.testing.assert_allclose(back, points, atol=1e-9)


CORNERS = ("topleft", "topright", "bottomright", "bottomleft")


@pytest.mark.parametrize("keep_size", [False, True])
@pytest.mark.parametrize("fit_output", [False, True])
def test_perspective(fit_output: bool, keep_size: bool) -> None:
    """The quadrangle, or the whole image, fills the result."""
    step = T.Perspective((0.1, 0.2), keep_size, fit_output, p=1)
    chain = T.Compose([step], seed=2, keypoint_convention="half_pixel")
    for index in range(20):
        points = torch.tensor([[0.0, 0], [WIDTH, 0], [WIDTH, HEIGHT], [0, HEIGHT]]).double()
        _, params = chain(PHOTO, index=index, return_params=True)
        own = params.steps[0]
        corners = torch.tensor(
            [[own[f"{c}_x"][0], own[f"{c}_y"][0]] for c in CORNERS], dtype=torch.float64
        )
        given = points if fit_output else corners
        result = chain({"image": PHOTO, "keypoints": given}, index=index)
        height, width = result["image"].shape[1:]
        moved = result["keypoints"]
        if keep_size:
            assert (height, width) == (HEIGHT, WIDTH)
        if not fit_output:
            square = torch.tensor([[0, 0], [width, 0], [width, height], [0, height]])
            torch.testing.assert_close(moved, square.double(), atol=1e-9, rtol=0.0)
            longer = np.hypot(*(corners - corners.roll(-1, 0)).T.numpy())
            if not keep_size:
                assert (height, width) == (int(max(longer[1::2])), int(max(longer[::2])))
        else:
            torch.testing.assert_close(moved.min(0).values, torch.zeros(2).double())
            size = torch.tensor([width, height]).double()
            torch.testing.assert_close(moved.max(0).values, size)


def test_corners_move_as_albumentations() -> None:
    functional = pytest.importorskip("albumentations.augmentations.geometric.functional")
    chain = T.Compose([T.Perspective((0.15, 0.15), p=1)], seed=0)
    _, params = chain(np.stack([PHOTO] * DRAWS), index=range(DRAWS), return_params=True)
    found = np.array([[params.steps[0][f"{c}_{a}"] for a in "xy"] for c in CORNERS])
    generator = np.random.default_rng(0)
    expected = np.stack(
        [
            functional.generate_perspective_points((HEIGHT, WIDTH), 0.15, generator)
            for _ in range(DRAWS)
        ],
        -1,
    )
    np.testing.assert_allclose(found.mean(-1), expected.mean(-1), atol=0.6)
    np.testing.assert_allclose(found.std(-1), expected.std(-1), atol=0.6)


PAIR = [
    T.PadIfNeeded(50, 70, position="random", fill=3),
    T.CropAndPad(px=(-5, 9), sample_independently=False),
    T.RandomCropFromBorders(),
    T.RandomScale(0.4, p=0.7),
    T.SafeRotate(),
    T.Perspective(),
    T.Crop(5, 5, 30, 30, p=0.5),
    T.RandomSizedCrop((10, 20), 24, p=0.5),
]


@pytest.mark.parametrize("step", PAIR, ids=lambda step: type(step).__name__)
def test_batches_are_their_samples_and_masks_move_alike(step: Any) -> None:
    chain = T.Compose([step, T.RandomHorizontalFlip(), T.Resize((20, 20))], seed=5)
    assert len(chain.passes) == 1 + isinstance(step, T.CropAndPad)  # which doesn't filter
    batch = torch.from_numpy(np.stack([PHOTO] * 6)).movedim(-1, 1)
    whole, params = chain(batch, index=range(6), return_params=True)
    for index in range(6):
        assert torch.equal(whole[index], chain(batch[index], index=index))
    assert torch.equal(chain(batch, params=params), whole)
    # A mask is what nearest pixels of the image are.
    step.__dict__["interpolation"] = None if step.interpolation is None else "nearest"
    labels = torch.randint(0, 9, (HEIGHT, WIDTH), generator=torch.manual_seed(0)).to(torch.uint8)
    exact = T.Compose([step], seed=5)
    found = exact({"image": labels[None], "mask": labels}, index=1)
    padded = step.fill or (0,)
    image = found["image"][0]
    assert ((image == found["mask"]) | (image == padded[0])).all()


def test_one_number_for_all_borders() -> None:
    step = T.CropAndPad(px=(-6, 7), sample_independently=False, keep_size=False)
    chain = T.Compose([step], seed=0)
    seen = set()
    for index in range(60):
        _, params = chain(PHOTO, index=index, return_params=True)
        top, rows = (int(params.steps[0][name][0]) for name in ("top", "height"))
        assert rows == HEIGHT - 2 * top
        seen.add(-top)
    assert seen == set(range(-6, 7))


BORDERS = "a number, a pair (min, max), 4 numbers or 4 pairs, of"
IMAGE = torch.zeros(3, HEIGHT, WIDTH)
SAMPLE = {"image": IMAGE, "boxes": BOXES, "mask": MASK}


def row(error: type[Exception], step: Any, sample: Any, message: str) -> Any:
    return error, f"transforms.{type(step).__name__}: {message}", lambda: step(sample)


def wrong(make: Any, message: str, **arguments: Any) -> Any:
    name, value = [*arguments.items()][-1]
    whole = f"transforms.{make.__name__}: {name} is {value!r}, must be {message}"
    return ValueError, whole, lambda: make(**arguments)


@table(
    row(ValueError, T.Crop(0, 0, 61, 40), IMAGE, "the image has height 40 and width 60, its part"),
    row(ValueError, T.CropAndPad(px=-20), IMAGE, "the image has height 40 and width 60, its part"),
    row(ValueError, T.AtLeastOneBBoxRandomCrop(41, 5), SAMPLE, "height and width are 41 and 5, an"),
    row(ValueError, T.CropNonEmptyMaskIfExists(4, 61), SAMPLE, "height and width are 4 and 61, an"),
    row(TypeError, T.BBoxSafeRandomCrop(), IMAGE, "the sample has no boxes, must have"),
    row(TypeError, T.AtLeastOneBBoxRandomCrop(4, 4), IMAGE, "the sample has no boxes, must have"),
    row(TypeError, T.CropNonEmptyMaskIfExists(4, 4), IMAGE, "the sample has no mask, must have"),
    row(ValueError, T.HueSaturationValue(p=1), IMAGE[:1], "the image has 1 channels, must have 3"),
    wrong(T.HueSaturationValue, "a number in [0, 180] or two in [-180, ", hue_shift_limit=181),
    wrong(T.Crop, "a whole number greater than x_min, which is 5", x_min=5, x_max=5),
    wrong(T.PadIfNeeded, "given where pad_height_divisor is None, and None", min_height=None),
    wrong(T.PadIfNeeded, "one of center, random, top_left, top_right, bott", position="left"),
    wrong(T.PadIfNeeded, "a whole number >= 1", min_width=None, pad_width_divisor=0),
    wrong(T.CropAndPad, "given where percent is None, and None where it is", percent=0.1, px=3),
    wrong(T.CropAndPad, f"{BORDERS} whole numbers", px=0.5),
    wrong(T.CropAndPad, f"{BORDERS} whole numbers; a range holds a number at least", px=(3, 3)),
    wrong(T.CropAndPad, f"{BORDERS} numbers > -1", percent=(0.1, 0.2, 0.3)),
    wrong(T.Perspective, "one interpolation", interpolation=["nearest", "bilinear"]),
    wrong(T.RandomCropFromBorders, "at most 1 together with", crop_left=0.6, crop_right=0.5),
    wrong(T.RandomSizedCrop, "two whole numbers >= 1", size=9, min_max_height=(0, 9)),
    wrong(T.RandomScale, "a number in [0, 1) or two > -1 (min, max)", scale_limit=1.0),
    wrong(T.SafeRotate, "a number >= 0 or two finite numbers (min, max)", limit=-3),
    wrong(T.Perspective, "a number >= 0 or two of them (min, max)", scale=-0.1),
    wrong(T.BBoxSafeRandomCrop, "a number in [0, 1]", erosion_rate=2),
    wrong(T.AtLeastOneBBoxRandomCrop, "a whole number >= 1", width=4, height=0),
    wrong(
        T.CropNonEmptyMaskIfExists, "None or a sequence", height=4, width=4, ignore_channels=[-1]
    ),
    wrong(T.Perspective, "a probability in [0, 1]", p=2),
)
def test_bad_input(error: type[Exception], message: str, call: Any) -> None:
    check(error, message, call)


def test_where_it_is_not_applied_nothing_is_refused() -> None:
    assert T.Crop(0, 0, 99, 99, p=0)(IMAGE).shape == IMAGE.shape


def test_boxes_outside_the_image() -> None:
    boxes = torch.tensor([[-30.0, -30, -10, -10], [90, 90, 99, 99]])
    for step in (T.BBoxSafeRandomCrop(), T.AtLeastOneBBoxRandomCrop(20, 20)):
        for index in range(20):
            found = T.Compose([step], seed=0)({"image": PLACES, "boxes": boxes}, index=index)
            assert found["image"].numel() > 0


def test_channels_of_masks_that_do_not_count() -> None:
    masks = torch.zeros(2, HEIGHT, WIDTH, dtype=torch.uint8)
    masks[0, 3, 4] = 1
    masks[1, 36, 55] = 1
    for ignored, pixel in ((0, 1), (1, 0)):
        step = T.CropNonEmptyMaskIfExists(10, 10, ignore_channels=[ignored])
        chain = T.Compose([step], seed=0)
        for index in range(20):
            found = chain({"image": PLACES, "masks": masks}, index=index)["masks"]
            assert found[pixel].sum() == 1


def test_given_parameters() -> None:
    given = {"apply": True, "top": -2, "left": 3, "height": HEIGHT + 2, "width": 40}
    step = {name: np.array([value]) for name, value in given.items()}
    params = Parameters(["PadIfNeeded"], [step], np.array([[HEIGHT, WIDTH]]))
    found = T.Compose([T.PadIfNeeded(fill=9)])(PHOTO, params=params)
    assert found.shape == (3, HEIGHT + 2, 40)
    assert (found[:, :2] == 9).all()
    assert np.array_equal(found[:, 2:].movedim(0, -1), PHOTO[:, 3:43])


@pytest.mark.parametrize("step", [T.PadIfNeeded(31, 70, p=0.5), T.Crop(2, 3, 20, 30, p=0.5)])
def test_batches_of_samples_that_it_is_applied_to_and_not(step: Any) -> None:
    """In exact chains, where all of them have a window in a later pass, or none has."""
    image = torch.rand((3, HEIGHT, WIDTH), generator=torch.manual_seed(0), dtype=torch.float64)
    chain = T.Compose([step, T.RandomInvert(), T.Resize((24, 25))], seed=0, exact=True)
    batch = chain([image] * 8, index=range(8))
    assert all(torch.equal(own, chain(image, index=i)) for i, own in enumerate(batch))
