"""albumentations' lenses, lights and tiles beside the original, with the numbers that ours drew."""

import math
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from bad_input import check, table
from visops import transforms as T
from visops._native import make_fields
from visops.pixels.morphology import dilated
from visops.transforms.chain.random import Numbers, normal

A = pytest.importorskip("albumentations")
pixel = pytest.importorskip("albumentations.augmentations.pixel.functional")
blur = pytest.importorskip("albumentations.augmentations.blur.functional")
geometric = pytest.importorskip("albumentations.augmentations.geometric.functional")

HEIGHT, WIDTH = 48, 64
_y, _x = np.mgrid[:HEIGHT, :WIDTH]
_noise = np.random.default_rng(0).integers(0, 30, (HEIGHT, WIDTH, 3))
PHOTO = (np.stack((_x * 2, _y * 3, 190 - _x), -1) + _noise).clip(0, 255).astype(np.uint8)
FLOATS = PHOTO.astype(np.float32) / 255
KEYS = [(i + 0.5) / 50 for i in range(50)]


def advanced(drawn: np.ndarray) -> np.ndarray:
    """The kernel of an AdvancedBlur's numbers."""
    side, sigma_x, sigma_y, degrees, place, low, high, least, most, key = drawn
    size, angle = int(side), np.radians(degrees)
    beta = low + 2 * place * (1 - low) if place < 0.5 else 1 + (2 * place - 1) * (high - 1)
    noise = least + Numbers(key).array(size, size) * (most - least)
    y, x = np.mgrid[:size, :size] - size // 2
    along = x * np.cos(angle) + y * np.sin(angle)
    across = y * np.cos(angle) - x * np.sin(angle)
    distance = (along / sigma_x) ** 2 + (across / sigma_y) ** 2
    weights: np.ndarray = np.exp(-0.5 * distance**beta) * noise
    return weights


def kernel(image: np.ndarray, drawn: Any) -> np.ndarray:
    return pixel.convolve(image, (drawn / drawn.sum()).astype(np.float32))


def zoomed(image: np.ndarray, drawn: Any) -> np.ndarray:
    return blur.zoom_blur(image, drawn)


def fringes(image: np.ndarray, drawn: Any) -> np.ndarray:
    (r1, r2), (b1, b2) = drawn
    return pixel.chromatic_aberration(image, r1, r2, b1, b2, cv2.INTER_LINEAR)


def polygons(drawn: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """The strength and the corners (x, y) of each of a RandomShadow's polygons."""
    count, key, left, top, right, bottom, corners, low, high, _ = drawn
    numbers, size = Numbers(key), (WIDTH, HEIGHT)
    first = np.floor(np.multiply((left, top), size))
    sides = np.maximum(np.floor(np.multiply((right, bottom), size)) - first, 1.0)
    return [
        (
            numbers.between((low, high)),
            (first + np.floor(numbers.array(int(corners), 2) * sides)).astype(np.int32),
        )
        for _ in range(int(count))
    ]


def shadows(image: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    strengths, corners = zip(*polygons(drawn), strict=True)
    return pixel.add_shadow(image, list(corners), np.array(strengths))


def light(image: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    strength, mode, first, second, third, darkens = drawn[:6]
    strength *= -1 if darkens else 1
    if mode == 0:
        return pixel.apply_linear_illumination(image, strength, first)
    if mode == 1:
        return pixel.apply_corner_illumination(image, strength, int(first))
    return pixel.apply_gaussian_illumination(image, strength, (first, second), third)


def plasma(image: np.ndarray, drawn: Any) -> np.ndarray:
    return pixel.apply_plasma_brightness_contrast(image, *drawn[:2], drawn[2].astype(np.float32))


def along_axes(image: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """Theirs, but with the axes that it means."""
    pixels = image.reshape(-1, 3) / 255
    values, axes = np.linalg.eigh(np.cov(pixels, rowvar=False))
    strength = axes @ np.diag(amounts[::-1] * values) @ axes.T
    moved = pixels + (pixels - pixels.mean(0)) @ strength
    return np.rint(moved.clip(0, 1) * 255).reshape(image.shape)


def handles(drawn: np.ndarray) -> np.ndarray:
    """Those of a RandomToneCurve's numbers, [2], or [3, 2] for channels."""
    scale, per_channel, key = drawn[:3]
    first, second = np.moveaxis(Numbers(key).array(3, 2, 2), -1, 0)
    heights = np.clip((0.25, 0.75) + scale * normal(first, second), 0.0, 1.0)
    return heights if per_channel else heights[0]


def tones(image: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    return pixel.move_tone_curve(image, *handles(drawn).T)


def snow(image: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    return pixel.add_snow_bleach(image, 2.0 * (drawn[1] - 1.0 / 3.0), drawn[0])


# Ours, theirs by what ours drew, and by how much of 255 a pixel and their mean may differ.
STEPS: dict[str, Any] = {
    "advanced blur": (T.AdvancedBlur(p=1), lambda i, d: kernel(i, advanced(d)), 1, 0.1),
    "wide blur": (
        T.AdvancedBlur((9, 13), 3, (2, 3), p=1),
        lambda i, d: kernel(i, advanced(d)),
        1,
        0.1,
    ),
    "defocus": (T.Defocus(p=1), kernel, 1, 0.1),
    "ringing": (T.RingingOvershoot(p=1), kernel, 1, 0.1),
    "zoom": (T.ZoomBlur(p=1), zoomed, 25, 3),  # theirs cuts to whole pixels
    "fringes": (T.ChromaticAberration(p=1), fringes, 2, 0.3),
    "opposite fringes": (T.ChromaticAberration(0.2, 0.3, "red_blue", p=1), fringes, 2, 0.3),
    "principal axes": (T.FancyPCA(3.0, p=1), along_axes, 1, 0.1),
    "slope": (T.Illumination("linear", (0.1, 0.6), p=1), light, 1, 0.3),
    **{
        f"slope of {angle}": (
            T.Illumination("linear", (0.1, 0.6), angle_range=(angle, angle), p=1),
            *(light, 1, 0.3),
        )
        for angle in (0, 45, 90, 135, 180, 225, 270, 315)
    },
    "corner": (T.Illumination("corner", (0.1, 0.6), p=1), light, 1, 0.6),
    "spot": (T.Illumination("gaussian", (0.1, 0.6), "darken", p=1), light, 1, 0.7),
    "clouds": (T.PlasmaBrightnessContrast((0, 0.3), (0, 0), p=1), plasma, 1, 0.1),
    "clouds' shadows": (
        T.PlasmaShadow(p=1),
        lambda i, d: pixel.apply_plasma_shadow(i, d[0], d[1].astype(np.float32)),
        1,
        0.6,
    ),
    "shadows": (T.RandomShadow(num_shadows_limit=(1, 3), p=1), shadows, 255, 6),
    "tones": (T.RandomToneCurve(0.3, p=1), tones, 1, 0.1),
    "tones of channels": (T.RandomToneCurve(0.3, True, p=1), tones, 1, 0.1),
    "snow": (T.RandomSnow(p=1), snow, 12, 4),  # theirs rounds lightness and saturation
}


def test_clouds_darken_and_flatten() -> None:
    """Which theirs do not: they take negative amounts for 0."""
    image = torch.linspace(0, 1, HEIGHT * WIDTH).view(1, HEIGHT, WIDTH)
    for brightness, contrast in ((-0.3, 0.0), (0.0, -0.5), (-0.1, 0.2)):
        step = T.PlasmaBrightnessContrast((brightness,) * 2, (contrast,) * 2, p=1)
        *_, clouds = step.draw(Numbers(0.5), image.shape)
        shifted = (image[0].numpy() + brightness * clouds).clip(0, 1)
        mean = shifted.mean()
        expected = (mean + (shifted - mean) * (1 + contrast * clouds)).clip(0, 1)
        found = step.change(image, (brightness, contrast, clouds))[0].clamp(0, 1)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_contrast_in_clouds_leaves_bright_pixels_bright() -> None:
    step = T.PlasmaBrightnessContrast((0, 0), (0.3, 0.3), p=1)
    drawn = step.draw(Numbers(0.5), (1, 8, 8))
    image = torch.full((1, 8, 8), 0.95)
    image[0, :4] = 0.2
    bright = step.change(image, drawn)[0, 4:]
    assert (bright >= 0.95).all()
    assert (pixel.apply_plasma_brightness_contrast(image[0].numpy(), *drawn)[4:] < 0.95).any()


def drawn_by(step: Any, params: Any) -> Any:
    """What a step's recorded parameters say that it does to an image."""
    (own,) = params.steps
    return (
        step.draw(Numbers(own["key"][0]), (3, HEIGHT, WIDTH)) if "key" in own else own["amounts"][0]
    )


@pytest.mark.parametrize("name", STEPS)
def test_values_are_albumentations(name: str) -> None:
    step, theirs, most, mean = STEPS[name]
    chain = T.Compose([step], seed=0)
    differs = 0
    for index in range(50):
        result, params = chain(PHOTO, index=index, return_params=True)
        assert torch.equal(chain(PHOTO, params=params), result)
        drawn = drawn_by(step, params)
        found = result.movedim(0, -1).numpy().astype(int)
        expected = theirs(PHOTO.copy(), drawn).astype(int)
        distance = np.abs(found - expected)
        assert np.quantile(distance, 0.97 if name == "snow" else 1.0) <= most  # thresholds round
        assert distance.mean() <= mean
        differs += (found != PHOTO).any()
    assert differs >= 30


def test_a_shadow_has_no_pixels_that_theirs_has_not() -> None:
    chain = T.Compose([T.RandomShadow(num_shadows_limit=(1, 1), p=1)], seed=0)
    white = torch.ones(1, HEIGHT, WIDTH)
    for index in range(50):
        found, params = chain(white, index=index, return_params=True)
        ours = (found[0] < 1).numpy()
        ((_, corners),) = polygons(params.steps[0]["amounts"][0])
        theirs = np.zeros((HEIGHT, WIDTH), np.uint8)
        cv2.fillPoly(theirs, [corners], (1,))
        lines = np.zeros_like(theirs)
        cv2.polylines(lines, [corners], True, (1,), 1)
        assert not (ours & (theirs == 0)).any()
        assert not ((theirs > 0) & ~ours & (lines == 0)).any()


CLOUDS = [(1, 2), (5, 5), (40, 30), (65, 64), (129, 10)]


@pytest.mark.parametrize("size", CLOUDS)
def test_clouds(size: tuple[int, int]) -> None:
    """As their generator makes them, from the same numbers."""
    step = T.PlasmaShadow(p=1, roughness=2.0)
    strength, found = step.draw(Numbers(0.3), (3, *size))
    assert (found.shape, found.min(), found.max()) == (size, 0.0, 1.0)
    numbers = Numbers(0.3)
    assert strength == numbers.between((0.3, 0.7))
    noise = np.empty((2, 1, 50000), np.float32)  # in [-1, 1]: a field that isn't blurred
    zeros, ones = [0.0, 0.0], [1.0, 1.0]
    values = {"key": numbers.next(), "factor": ones, "sigma": zeros, "radius": zeros}
    make_fields([("elastic", values, *noise.shape[1:], noise.ctypes.data)])
    rest = iter(noise[0, 0].tolist())

    class Generator:
        def uniform(self, low: float, high: float, shape: Any) -> np.ndarray:
            own = np.array([next(rest) for _ in range(math.prod(shape))]).reshape(shape)
            return low + (own + 1.0) / 2.0 * (high - low)

    if max(size) > 3:  # theirs takes logarithms of 0
        expected = pixel.generate_plasma_pattern(size, 2.0, Generator())
        np.testing.assert_allclose(found, expected, atol=2e-3)


def test_draws_have_albumentations_spread() -> None:
    """Kernels, whose numbers theirs draws as it makes them, are compared by measures."""
    for theirs in (A.AdvancedBlur((3, 9), p=1), A.RingingOvershoot((7, 11), p=1)):
        ours = T.convert(theirs).transforms[0]
        theirs.set_random_seed(0)
        chain = T.Compose([ours], seed=0)
        drawn = [drawn_by(ours, chain.make_params(PHOTO, index=i)) for i in range(400)]
        drawn = [advanced(own) if own.ndim == 1 else own for own in drawn]
        expected = [theirs.get_params()["kernel"] for _ in range(400)]
        for measure in (len, lambda k: k.max() / k.sum(), lambda k: (k**2).sum() / k.sum() ** 2):
            a, b = (np.array([measure(own) for own in own_all]) for own_all in (drawn, expected))
            assert a.mean() == pytest.approx(b.mean(), rel=0.08)
            assert a.std() == pytest.approx(b.std(), rel=0.15)
    ours = T.ChromaticAberration(p=1, mode="green_purple")
    red, blue = np.array([ours.draw(Numbers(k), (3, 9, 9)) for k in KEYS]).swapaxes(0, 1)
    assert (np.sign(red) == np.sign(blue)).all()


@pytest.mark.parametrize("scale", [(2, 3), (3, 3), (5, 4), (6, 7), (1, 1), (9, 1), (1, 9)])
@pytest.mark.parametrize("operation", ["dilation", "erosion"])
def test_morphology(operation: str, scale: tuple[int, int]) -> None:
    theirs = A.Morphological(scale, operation, p=1)
    mask = PHOTO[..., 0] // 40
    chain = T.convert(theirs)
    for image, labels in ((PHOTO, mask), (FLOATS, mask > 2)):
        expected = theirs(image=image, mask=labels.astype(np.uint8))
        found = chain({"image": image, "mask": labels})
        assert np.array_equal(found["image"].movedim(0, -1).numpy(), expected["image"])
        assert np.array_equal(np.asarray(found["mask"]), expected["mask"])


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
def test_masks_are_dilated_as_images_are(dtype: torch.dtype) -> None:
    """Within choices, among other steps, and for the samples of a batch that have drawn it."""
    image = torch.from_numpy(PHOTO).movedim(-1, 0)
    mask = (image[0] // 90).to(dtype)
    step = T.Morphological((5, 4), p=1)
    expected = dilated(mask, 5, 4, True)
    assert not torch.equal(expected, mask)
    for steps in (
        [step],
        [T.RandomApply([step], 1.0)],
        [T.RandomChoice([step, step])],
        [T.RandomInvert(1.0), step, T.RandomPosterize(3, 1.0)],
        [T.ToDtype(torch.float32, scale=True), step],
    ):
        found = T.Compose(steps)({"image": image, "mask": mask})["mask"]
        assert found.dtype == dtype
        assert torch.equal(found, expected)
    chain = T.Compose([T.Morphological((5, 4), p=0.5)], seed=0)
    sample = {"image": torch.stack([image] * 12), "masks": torch.stack([mask[None]] * 12)}
    found, params = chain(sample, index=range(12), return_params=True)
    applies = params.steps[0]["apply"]
    assert 0 < applies.sum() < 12
    assert torch.equal(chain(sample, params=params)["masks"], found["masks"])
    for i, own in enumerate(applies):
        assert torch.equal(found["masks"][i, 0], expected if own else mask)
        assert torch.equal(found["image"][i], dilated(image, 5, 4, True) if own else image)


def test_dilations_are_exact_differentiable_and_before_what_moves() -> None:
    step = T.Compose([T.Morphological((5, 4), "erosion", p=1)])
    for form in ("double", "int32"):
        assert torch.equal(step(SAMPLES[form]), dilated(SAMPLES[form], 5, 4, False))
    image = SAMPLES["float"].clone().requires_grad_()
    step(image).sum().backward()
    assert image.grad is not None
    assert float(image.grad.sum()) == pytest.approx(image.numel())
    moves = T.RandAugment()
    assert len(T.Compose([moves, *step.transforms]).passes) == 1
    assert len(T.Compose([*step.transforms, moves]).passes) == 2


@pytest.mark.parametrize("grid", [(3, 3), (4, 7), (1, 5), (99, 2)])
def test_tiles(grid: tuple[int, int]) -> None:
    """Tiles of their sizes, each once, and masks and key points go with them."""
    rows = np.stack((_x, _y, _x + 100 * _y), -1).astype(np.float32)
    labels = (_x + 7 * _y).astype(np.int32)
    points = torch.tensor([[0.0, 0], [17, 23], [63, 47], [40.3, 11.6]])
    chain = T.Compose([T.RandomGridShuffle(grid, p=1)], seed=0)
    orders = set()
    for index in range(20):
        sample = {"image": rows, "mask": labels, "keypoints": points}
        found = chain(sample, index=index)
        x, y = found["image"][:2].long()
        assert torch.equal(torch.as_tensor(found["mask"]).long(), x + 7 * y)
        assert torch.equal((x + 64 * y).flatten().sort().values, torch.arange(HEIGHT * WIDTH))
        for own, to in zip(points.tolist(), found["keypoints"].tolist(), strict=True):
            place = round(to[1]), round(to[0])
            assert (round(own[0]), round(own[1])) == (int(x[place]), int(y[place]))
        orders.add(x.numpy().tobytes() + y.numpy().tobytes())
        step = chain.transforms[0]
        tiles = np.array(step.draw(Numbers((index + 0.5) / 20), (3, HEIGHT, WIDTH)))
        sizes = geometric.split_uniform_grid(
            (HEIGHT, WIDTH), (min(grid[0], HEIGHT), grid[1]), np.random.default_rng(0)
        )
        theirs = sorted(map(tuple, (sizes[:, 2:] - sizes[:, :2]).tolist()))
        assert sorted(map(tuple, tiles[:, 2:4].tolist())) == theirs
    assert len(orders) > 10


SAMPLES: dict[str, Any] = {
    "float": torch.from_numpy(FLOATS).movedim(-1, 0),
    "half": torch.from_numpy(FLOATS).movedim(-1, 0).half(),
    "double": torch.from_numpy(FLOATS).movedim(-1, 0).double(),
    "uint16": torch.from_numpy(PHOTO.astype(np.int32) * 257).movedim(-1, 0).to(torch.uint16),
    "int32": torch.from_numpy(PHOTO.astype(np.int32) * 2**23).movedim(-1, 0),
}


@pytest.mark.parametrize(
    "name", [n for n in STEPS if n[:8] not in ("wide blu", "opposite", "slope of")]
)
def test_dtypes_batches_and_videos(name: str) -> None:
    step = STEPS[name][0]
    chain = T.Compose([step], seed=1)
    image = torch.from_numpy(PHOTO).movedim(-1, 0)
    expected = chain(image, index=3)
    assert torch.equal(chain(torch.stack([image] * 2), index=[5, 3])[1], expected)
    assert torch.equal(chain([image, image], index=[5, 3])[1], expected)
    video = T.Compose([step], seed=1, per_frame=False)(torch.stack([image] * 3), index=3)
    assert all(torch.equal(frame, expected) for frame in video)
    levels = {"uint16": 65535.0, "int32": 2.0**31}
    for form, sample in SAMPLES.items():
        found = chain(sample, index=3)
        assert (found.dtype, found.shape) == (sample.dtype, sample.shape)
        near = found.double() / levels.get(form, 1.0) * 255.0
        far = (near - expected.double()).abs().flatten()
        assert far.quantile(0.97) <= 3.0
        assert name == "snow" or far.max() <= 3.0
    floats = torch.from_numpy(PHOTO).double().div(255.0)
    planes = floats.movedim(-1, 0).contiguous()
    assert torch.equal(chain(floats.movedim(-1, 0), index=3), chain(planes, index=3))
    planes[0, 0, 0] = torch.nan
    assert chain(planes, index=3).isnan().any()


@pytest.mark.parametrize("step", [T.RandomToneCurve(0.3, True, p=1), T.FancyPCA(2.0, p=1)])
def test_images_of_other_channels_have_numbers_of_their_own(step: Any) -> None:
    """Beside colours, a grey image stays grey; a second image of three channels changes alike."""
    colours = torch.from_numpy(PHOTO).movedim(-1, 0)
    sample = {"image": colours, "grey": colours[:1], "second": colours}
    chain = T.Compose([step], seed=0, keys={"image": ["grey", "second"]})
    found = chain(sample, index=0)
    assert found["grey"].shape == (1, HEIGHT, WIDTH)
    assert torch.equal(found["grey"], T.Compose([step], seed=0)(colours[:1], index=0))
    assert torch.equal(found["second"], found["image"])


def test_boxes_stay_and_probabilities_count() -> None:
    boxes = torch.tensor([[3.0, 4, 20, 30]])
    for cls in (T.Defocus, T.Morphological, T.RandomShadow):
        never, always = (T.Compose([cls(p=p)], seed=0) for p in (0, 1))
        sample = {"image": torch.from_numpy(FLOATS).movedim(-1, 0), "boxes": boxes}
        assert torch.equal(never(sample, index=0)["image"], sample["image"])
        assert torch.equal(always(sample, index=0)["boxes"], boxes)
        batch = torch.stack([sample["image"]] * 60)
        changed = T.Compose([cls(p=0.3)], seed=0)(batch, index=range(60)) != batch
        assert 8 <= int(changed.flatten(1).any(1).sum()) <= 28


def row(step: Any, image: Any, error: type[Exception], message: str) -> Any:
    return error, f"transforms.{type(step).__name__}: {message}", lambda: step(image)


def wrong(make: Any, message: str, **arguments: Any) -> Any:
    name, value = [*arguments.items()][-1]
    whole = f"transforms.{make.__name__}: {name} is {value!r}, must be {message}"
    return ValueError, whole, lambda: make(**arguments)


BOXED = {"image": torch.zeros(3, 9, 9), "boxes": torch.tensor([[1.0, 2, 3, 4]])}


@table(
    row(T.RandomSnow(p=1), torch.zeros(1, 9, 9), ValueError, "the image has 1 channels, must have"),
    row(T.ChromaticAberration(p=1), torch.zeros(4, 9, 9), ValueError, "the image has 4 channels"),
    row(T.RandomGridShuffle(p=1), BOXED, TypeError, "sample['boxes'] would fall apart; must be"),
    row(T.RandomCropNearBBox(), BOXED, TypeError, "the sample has no 'cropping_bbox', must be a"),
    row(
        T.RandomCropNearBBox(),
        {"image": torch.zeros(3, 9, 9), "cropping_bbox": (1, 2, 3, float("inf"))},
        ValueError,
        "'cropping_bbox' is (1, 2, 3, inf), must be four finite numbers x1, y1, x2, y2",
    ),
    wrong(T.AdvancedBlur, "an odd whole number >= 3", blur_limit=4),
    wrong(T.AdvancedBlur, "two numbers (min, max) in [0, 100], below 1 and", beta_limit=(2, 3)),
    wrong(T.Defocus, "a whole number in [1, 100] or two of them (min, max)", radius=0.5),
    wrong(T.Defocus, "a whole number in [1, 100] or two of them (min, max)", radius=2.5),
    wrong(T.RingingOvershoot, "two numbers in (0, pi] (min, max)", cutoff=(0, 4)),
    wrong(T.ZoomBlur, "a number in [1, 10] or two of them (min, max)", max_factor=0.5),
    wrong(T.ChromaticAberration, "'green_purple', 'red_blue' or 'random'", mode="blue"),
    wrong(T.FancyPCA, "a number >= 0", alpha=-1),
    wrong(T.RandomShadow, "four numbers in [0, 1]", shadow_roi=5),
    wrong(T.Illumination, "'linear', 'corner' or 'gaussian'", mode="side"),
    wrong(T.Illumination, "'both', 'brighten' or 'darken'", effect_type="dim"),
    wrong(T.PlasmaShadow, "a number in (0, 20]", roughness=0),
    wrong(T.RandomShadow, "four numbers in [0, 1]: left, top, right", shadow_roi=(0, 0.5, 1, 2)),
    wrong(T.RandomShadow, "a whole number >= 3", shadow_dimension=2),
    wrong(T.RandomSnow, "a number in (0, 100]", brightness_coeff=0),
    wrong(T.RandomToneCurve, "a number in [0, 1]", scale=2),
    wrong(T.Morphological, "'dilation' or 'erosion'", operation="opening"),
    wrong(T.RandomGridShuffle, "a whole number >= 1 or a pair (height, width) of such", grid=0),
    wrong(T.RandomCropNearBBox, "a number in [0, 1] or two of them", max_part_shift=2),
)
def test_bad_input(error: type[Exception], message: str, call: Any) -> None:
    check(error, message, call)
