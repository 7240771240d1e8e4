"""What transforms draw: torchvision's distributions; the inverse of what has no image."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from torch import Tensor
from visops import transforms
from visops import transforms as T
from visops.transforms import Canvas

from transforms.chains import drawn, photo

COUNT = 20000


def uniform(values: np.ndarray, low: float, high: float) -> None:
    assert scipy.stats.kstest(values, "uniform", (low, high - low)).pvalue > 0.01


def evenly(values: np.ndarray, low: int, high: int) -> None:
    """Check for whole numbers from low to high, all equally frequent."""
    whole = values.astype(np.int64)
    assert (whole == values).all()
    assert whole.min() == low
    assert whole.max() == high
    assert scipy.stats.chisquare(np.bincount(whole - low)).pvalue > 0.01


def happens(condition: np.ndarray, p: float) -> None:
    assert condition.dtype == bool
    assert scipy.stats.binomtest(int(condition.sum()), len(condition), p).pvalue > 0.01


def from_torchvision(
    name: str, count: int, canvas: tuple[int, int], **arguments: Any
) -> np.ndarray:
    """Return parameters of torchvision's transform of that name, [count, number of parameters]."""
    v2 = pytest.importorskip("torchvision.transforms.v2")
    transform = getattr(v2, name)(**arguments)
    torch.manual_seed(1)
    image = torch.empty(3, *canvas, device="meta")
    rows = [transform.make_params([image]) for _ in range(count)]
    return np.array([[value for key, value in row.items() if key != "v"] for row in rows])


def same_distribution(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert scipy.stats.ks_2samp(ours, theirs).pvalue > 0.01


def test_resized_crop_has_uniform_area_and_log_uniform_ratio() -> None:
    crop = transforms.RandomResizedCrop(8, scale=(0.1, 0.3), ratio=(0.5, 2.0))
    params = drawn(crop, COUNT, 9000, 9000)
    uniform(params["height"] * params["width"] / 9000.0**2, 0.1, 0.3)
    uniform(np.log(params["width"] / params["height"]), math.log(0.5), math.log(2.0))
    uniform(params["top"] / (9000 - params["height"] + 1), 0.0, 1.0)
    uniform(params["left"] / (9000 - params["width"] + 1), 0.0, 1.0)


@pytest.mark.parametrize("size", [(300, 400), (30, 500), (700, 40)])
def test_resized_crop_has_torchvisions_distribution(size: tuple[int, int]) -> None:
    # In narrow images many crops need several attempts, or the fallback.
    ours = drawn(transforms.RandomResizedCrop(8), COUNT, *size)
    theirs = from_torchvision("RandomResizedCrop", 1500, size, size=8)
    for column, name in enumerate(("top", "left", "height", "width")):
        same_distribution(ours[name], theirs[:, column])
    same_distribution(ours["height"] * ours["width"], theirs[:, 2] * theirs[:, 3])


@pytest.mark.parametrize("size", [(10, 1000), (1000, 10), (1, 7), (5, 5), (1, 1)])
def test_resized_crop_falls_back_to_the_middle(size: tuple[int, int]) -> None:
    # An area of at least the whole image leaves only the fallback.
    crop = transforms.RandomResizedCrop(8, scale=(2.0, 3.0))
    ours = drawn(crop, 10, *size)
    theirs = from_torchvision("RandomResizedCrop", 1, size, size=8, scale=(2.0, 3.0))[0]
    for column, name in enumerate(("top", "left", "height", "width")):
        assert (ours[name] == theirs[column]).all(), name


def test_resized_crop_stays_within_its_image() -> None:
    rng = np.random.default_rng(0)
    height, width = rng.integers(1, 200, (2, 5000)).astype(np.float64)
    crop = transforms.RandomResizedCrop(8)
    params = crop.make_params(rng.random((5000, crop.draws)), Canvas(height, width))
    assert (params["height"] >= 1).all()
    assert (params["width"] >= 1).all()
    assert (params["top"] >= 0).all()
    assert (params["left"] >= 0).all()
    assert (params["top"] + params["height"] <= height).all()
    assert (params["left"] + params["width"] <= width).all()


def test_affine() -> None:
    affine = transforms.RandomAffine((-20, 40), (0.1, 0.02), (0.5, 1.5), (-5, 10, -20, 3))
    params = drawn(affine, COUNT, 300, 400)
    uniform(params["angle"], -20, 40)
    uniform(params["scale"], 0.5, 1.5)
    uniform(params["shear_x"], -5, 10)
    uniform(params["shear_y"], -20, 3)
    # Rounded to whole pixels, the two ends are half as likely as the rest.
    inner = np.abs(params["translate_x"]) < 40
    evenly(params["translate_x"][inner], -39, 39)
    assert (params["translate_x"].min(), params["translate_x"].max()) == (-40, 40)
    evenly(params["translate_y"][np.abs(params["translate_y"]) < 6], -5, 5)
    assert (params["translate_y"].min(), params["translate_y"].max()) == (-6, 6)
    related = np.corrcoef(np.stack(list(params.values())))
    assert np.abs(related - np.eye(len(params))).max() < 0.03


def test_affine_without_options_draws_an_angle_only() -> None:
    assert list(drawn(transforms.RandomAffine(10), 5)) == ["angle"]


def test_rotation() -> None:
    uniform(drawn(transforms.RandomRotation(30), COUNT)["angle"], -30, 30)
    uniform(drawn(transforms.RandomRotation((90, 100)), COUNT)["angle"], 90, 100)


def test_perspective_moves_each_corner_within_its_rectangle() -> None:
    height, width = 41, 60
    params = drawn(transforms.RandomPerspective(0.4, p=0.3), COUNT, height, width)
    happens(params["apply"], 0.3)
    x, y = int(0.4 * (width // 2)), int(0.4 * (height // 2))
    for name in ("topleft", "bottomleft"):
        evenly(params[f"{name}_x"], 0, x)
    for name in ("topright", "bottomright"):
        evenly(params[f"{name}_x"], width - 1 - x, width - 1)
    for name in ("topleft", "topright"):
        evenly(params[f"{name}_y"], 0, y)
    for name in ("bottomleft", "bottomright"):
        evenly(params[f"{name}_y"], height - 1 - y, height - 1)


@pytest.mark.parametrize("make", [transforms.RandomHorizontalFlip, transforms.RandomVerticalFlip])
@pytest.mark.parametrize("p", [0.0, 0.2, 1.0])
def test_flips(make: Callable[..., Any], p: float) -> None:
    happens(drawn(make(p), COUNT)["apply"], p)


def test_crop_takes_every_position() -> None:
    params = drawn(transforms.RandomCrop((20, 30)), COUNT, 32, 30)
    evenly(params["top"], 0, 12)
    assert not params["left"].any()
    params = drawn(transforms.RandomCrop((20, 30), padding=(1, 2, 3, 4)), COUNT, 32, 40)
    evenly(params["top"], -2, 16)
    evenly(params["left"], -1, 13)


def test_crop_pads_both_sides_by_what_is_missing() -> None:
    params = drawn(transforms.RandomCrop((20, 30), pad_if_needed=True), COUNT, 15, 40)
    evenly(params["top"], -5, 0)
    evenly(params["left"], 0, 10)


def test_jitter() -> None:
    jitter = transforms.ColorJitter(0.4, (0.5, 3.0), 1.2, 0.1)
    params = drawn(jitter, COUNT)
    uniform(params["brightness"], 0.6, 1.4)
    uniform(params["contrast"], 0.5, 3.0)
    uniform(params["saturation"], 0.0, 2.2)
    uniform(params["hue"], -0.1, 0.1)
    code = (params["order"] * [64, 16, 4, 1]).sum(1)
    orders, counts = np.unique(code, return_counts=True)
    assert len(orders) == 24
    assert (np.sort(params["order"], axis=1) == range(4)).all()
    assert scipy.stats.chisquare(counts).pvalue > 0.01


def test_jitter_leaves_out_what_does_nothing() -> None:
    jitter = transforms.ColorJitter(brightness=0, saturation=(1, 1), hue=0.2)
    assert list(drawn(jitter, 5)) == ["order", "hue"]


def test_grayscale() -> None:
    happens(drawn(transforms.RandomGrayscale(0.1), COUNT)["apply"], 0.1)


@pytest.mark.parametrize("size", [(300, 400), (12, 200), (9, 9)])
def test_erasing_has_torchvisions_distribution(size: tuple[int, int]) -> None:
    erase = transforms.RandomErasing(1.0, scale=(0.02, 0.9), ratio=(0.2, 5.0))
    ours = drawn(erase, COUNT, *size)
    theirs = from_torchvision(
        "RandomErasing", 3000, size, p=1.0, scale=(0.02, 0.9), ratio=(0.2, 5.0)
    )
    fits = ours["apply"]
    theirs_fit = (theirs[:, 2] < size[0]) & (theirs[:, 3] < size[1])
    rate = theirs_fit.mean()
    assert abs(fits.mean() - rate) < 4 * math.sqrt(rate * (1 - rate) / 3000) + 1e-9
    for column, name in enumerate(("top", "left", "height", "width")):
        same_distribution(ours[name][fits], theirs[theirs_fit][:, column])


def test_erasing_happens_with_its_probability() -> None:
    params = drawn(transforms.RandomErasing(0.3, value="random"), COUNT, 3000, 3000)
    happens(params["apply"], 0.3)
    uniform(params["height"] * params["width"] / 3000.0**2, 0.02, 0.33)
    uniform(params["noise"], 0.0, 1.0)


def test_rand_augment_takes_every_operation() -> None:
    params = drawn(transforms.RandAugment(2, 9, 31), COUNT, 300, 400)
    shift = 150 / 331
    reach = [0, 0.3, 0.3, shift * 400, shift * 300, 30, 0.9, 0.9, 0.9, 0.9]
    signed = np.array([0, *[1] * 9, 0, 0, 0, 0], bool)
    for step in range(2):
        operation, magnitude = params[f"operation_{step}"], params[f"magnitude_{step}"]
        evenly(operation, 0, 13)
        fixed = [7.0, 21 / 30, 0.0, 0.0]  # bits, threshold
        expected = np.array([*(r * 9 / 30 for r in reach), *fixed])[operation]
        np.testing.assert_allclose(np.abs(magnitude), expected, rtol=1e-6)
        happens(magnitude[signed[operation]] > 0, 0.5)
        assert (magnitude[~signed[operation]] >= 0).all()
    both = np.stack((params["operation_0"], params["operation_1"]))
    assert abs(np.corrcoef(both)[0, 1]) < 0.03


def test_trivial_augment_takes_every_operation_and_magnitude() -> None:
    params = drawn(transforms.TrivialAugment(5), COUNT)
    evenly(params["operation"], 0, 13)
    reach = np.array([0, 0.99, 0.99, 32, 32, 135, 0.99, 0.99, 0.99, 0.99])
    moving = (params["operation"] > 0) & (params["operation"] < 10)
    level = params["magnitude"][moving] / reach[params["operation"][moving]] * 4
    np.testing.assert_allclose(level, np.rint(level), atol=1e-6)
    bits = params["magnitude"][params["operation"] == 10]
    assert sorted(set(bits.tolist())) == [2.0, 4.0, 5.0, 6.0, 8.0]  # halves go to even numbers
    evenly(np.abs(np.rint(level)), 0, 4)


def test_resize_follows_the_shorter_side() -> None:
    canvas = Canvas(np.array([300.0, 400.0, 31.0]), np.array([400.0, 300.0, 31.0]))
    params = transforms.Resize(150).make_params(np.empty((3, 0)), canvas)
    assert params["height"].tolist() == [150, 200, 150]
    assert params["width"].tolist() == [200, 150, 150]


@pytest.mark.parametrize("size", [(300, 400), (400, 300), (37, 91), (91, 37), (50, 50), (333, 1)])
@pytest.mark.parametrize(("wanted", "longest"), [(150, None), (150, 160), (None, 77), (7, 300)])
def test_resize_has_torchvisions_size(
    size: tuple[int, int], wanted: int | None, longest: int | None
) -> None:
    functional = pytest.importorskip("torchvision.transforms.v2.functional")
    image = torch.zeros(1, *size)
    if min(size) == 1 and longest is not None:
        with pytest.raises(ValueError, match="has height 333 and width 1; must leave a row"):
            transforms.Resize(wanted, max_size=longest)(image)
        return
    expected = functional.resize(image, wanted, max_size=longest).shape
    assert transforms.Resize(wanted, max_size=longest)(image).shape == expected


def turn() -> T.Compose:
    return T.Compose([T.RandomRotation((90, 90), expand=True), T.RandomHorizontalFlip(1.0)])


@pytest.mark.parametrize("batched", [False, True])
def test_targets_need_no_image(batched: bool) -> None:
    chain = T.Compose([T.RandomResizedCrop((40, 60)), T.RandomAffine(20)], seed=2)
    boxes, points = torch.tensor([[10.0, 20.0, 60.0, 50.0]]), torch.tensor([[30.0, 20.0]])
    mask = torch.ones(80, 90, dtype=torch.uint8)
    one: dict[str, Any] = {
        "image": torch.rand(3, 80, 90),
        "boxes": boxes,
        "keypoints": points,
        "mask": mask,
        "labels": ["cat"],
        "name": "a",
    }
    count = 3 if batched else 1
    sample = {key: [value] * count for key, value in one.items()} if batched else one
    out, params = chain(sample, index=range(count), return_params=True)
    expected = chain.inverse(out, params)
    image = out.pop("image")
    assert image.shape[-2:] == (40, 60)
    back = chain.inverse(out, params)
    assert back.keys() == expected.keys() - {"image"}
    for key in ("boxes", "keypoints", "keypoints_visible", "mask"):
        for own, other in zip(back[key], expected[key], strict=True):
            assert torch.equal(torch.as_tensor(own), torch.as_tensor(other)), key
    assert (back["labels"], back["name"]) == (expected["labels"], expected["name"])


def test_typed_boxes_alone() -> None:
    tv = pytest.importorskip("torchvision.tv_tensors")
    chain = turn()
    boxes = tv.BoundingBoxes([[1.0, 2, 3, 5]], format="XYXY", canvas_size=(6, 9))
    (_, moved), params = chain((tv.Image(torch.zeros(3, 6, 9)), boxes), return_params=True)
    assert moved.canvas_size == (9, 6)
    back = chain.inverse(moved, params)
    assert type(back) is tv.BoundingBoxes
    assert (back.tolist(), back.canvas_size) == (boxes.tolist(), (6, 9))
    elsewhere = tv.wrap(boxes, like=boxes, canvas_size=(9, 7))
    with pytest.raises(ValueError, match=r"inverse: .* is for \[\[9, 7\]\] rows and columns, must"):
        chain.inverse(elsewhere, params)


def seen(chain: T.Compose, size: tuple[int, int]) -> Any:
    return chain.make_params(torch.zeros(1, *size))


def test_maps_of_another_stride_come_back_in_full_size() -> None:
    chain = turn()
    image = photo(torch.float32)[:, :120, :160]
    turned, params = chain(image, return_params=True)
    small, original = (F.avg_pool2d(picture[None], 4)[0] for picture in (turned, image))
    back = chain.inverse(small, params, stride=4)
    expected = F.interpolate(original[None], scale_factor=4.0, mode="bilinear")[0]
    torch.testing.assert_close(back, expected, rtol=0.0, atol=1e-5)
    nearest = chain.inverse(small, params, stride=4, interpolation="nearest")
    expected = original.repeat_interleave(4, 1).repeat_interleave(4, 2)
    torch.testing.assert_close(nearest, expected, rtol=0.0, atol=1e-6)


def test_maps_masks_and_boxes_of_one_network() -> None:
    chain = turn()
    classes = torch.arange(12).reshape(3, 4)
    params = seen(chain, (48, 64))
    turned = classes.rot90(1, (0, 1)).flip(1)
    sample = {
        "image": torch.zeros(17, 4, 3),  # heat maps: the channels are the longest side
        "mask": turned,
        "boxes": torch.tensor([[0.0, 0.0, 48.0, 64.0]]),
    }
    back = chain.inverse(sample, params, stride=16)
    assert back["image"].shape == (17, 48, 64)
    assert torch.equal(back["mask"], classes.repeat_interleave(16, 0).repeat_interleave(16, 1))
    assert back["boxes"].tolist() == [[0.0, 0.0, 64.0, 48.0]]


@pytest.mark.parametrize("size", [(13, 9), (12, 8)])
def test_maps_of_sizes_that_the_stride_does_not_divide(size: tuple[int, int]) -> None:
    chain = T.Compose([T.RandomHorizontalFlip(1.0)])
    params = seen(chain, (50, 34))
    columns = torch.arange(float(size[1])).expand(1, *size)
    back = chain.inverse(columns, params, stride=4, interpolation="nearest")[0, 0]
    # Pixel x of the result is at 33 - x of the chain's result, which is in column (33 - x) // 4.
    expected = torch.arange(33, -1, -1).div(4, rounding_mode="floor")
    inside = expected < size[1]
    assert torch.equal(back[inside].long(), expected[inside])
    assert (back[~inside] == 0).all()


def test_batches_of_maps() -> None:
    chain = T.Compose([T.RandomHorizontalFlip(), T.RandomVerticalFlip()], seed=3)
    images = torch.rand(6, 2, 8, 12)
    moved, params = chain(images, index=range(6), return_params=True)
    back = chain.inverse(F.avg_pool2d(moved, 2), params, stride=2, interpolation="nearest")
    expected = F.interpolate(F.avg_pool2d(images, 2), scale_factor=2.0, mode="nearest-exact")
    torch.testing.assert_close(back, expected, rtol=0.0, atol=1e-6)


def test_frames_that_share_their_draws() -> None:
    flips = T.RandomHorizontalFlip(), T.RandomVerticalFlip()
    chain = T.Compose([*flips], seed=3, per_frame=False)
    clips = torch.rand(6, 5, 2, 8, 12)
    for clip, index in ((clips[0], 4), (clips, range(6))):
        moved, params = chain(clip, index=index, return_params=True)
        assert torch.equal(chain.inverse(moved, params), clip)
        typed = chain.inverse({"image": moved, "name": "a"}, params)
        assert torch.equal(typed["image"], clip)


def test_what_stands_between_moves_nothing() -> None:
    """Neither another package's transform nor random values end the inverse."""
    image = torch.rand(3, 8, 12)
    for between in (torch.nn.Identity(), T.RandomErasing(0.0, value="random")):
        chain = T.Compose([T.RandomHorizontalFlip(1.0), between, T.RandomVerticalFlip(1.0)])
        assert len(chain.passes) == 3
        moved, params = chain(image, return_params=True)
        assert torch.equal(moved, image.flip(1, 2))
        assert torch.equal(chain.inverse(moved, params), image)


def test_chains_that_move_nothing() -> None:
    chain = T.Compose([torch.nn.Identity()])
    sample: Any = {"image": torch.rand(2, 3, 8, 12), "boxes": [[[1.0, 2.0, 5.0, 7.0]]] * 2}
    moved, params = chain(sample, return_params=True)
    back = chain.inverse(moved, params)
    assert torch.equal(back["image"], sample["image"])
    assert back["boxes"] == sample["boxes"]


@pytest.mark.parametrize("own", ["nearest", "bilinear", "bicubic"])
def test_interpolation_is_the_chain_s_but_of_small_maps(own: Any) -> None:
    chain = T.Compose([T.RandomRotation((20, 20), own)])
    params = seen(chain, (40, 60))
    maps, small = torch.rand(2, 40, 60), torch.rand(2, 10, 15)
    for mode in ("nearest", "bilinear", "bicubic"):
        found = chain.inverse(maps, params, interpolation=mode)
        assert torch.equal(chain.inverse(maps, params), found) == (mode == own)
        found = chain.inverse(small, params, stride=4, interpolation=mode)
        assert torch.equal(chain.inverse(small, params, stride=4), found) == (mode == "bilinear")


@pytest.mark.parametrize(
    ("sample", "options", "error", "message"),
    [
        (torch.zeros(2, 5, 5), {"stride": 0}, ValueError, "stride is 0, must be a whole number >="),
        (torch.zeros(2, 5, 5), {"stride": 1.5}, TypeError, r"stride is 1\.5, must be a whole num"),
        (
            torch.zeros(2, 5, 5),
            {"stride": 4},
            ValueError,
            r"the images have \[\[5, 5\]\] rows and columns, must have \[\[3, 2\]\], as these "
            "parameters produce with stride 4",
        ),
        (
            {"mask": np.zeros((5, 6), np.uint8)},
            {},
            ValueError,
            r"sample\['mask'\] is for \[\[5, 6\]\] rows and columns, must have \[\[12, 8\]\]",
        ),
        (
            torch.zeros(2, 2, 12, 8),
            {},
            ValueError,
            r"the images have \[\[12, 8\], \[12, 8\]\] rows and columns, must have \[\[12, 8\]\]",
        ),
        (torch.zeros(2, 12, 8), {"interpolation": "area"}, ValueError, "interpolation is 'area'"),
    ],
)
def test_what_does_not_fit_is_refused(
    sample: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    chain = turn()
    with pytest.raises(error, match=rf"^visops\.transforms\.Compose\.inverse: {message}"):
        chain.inverse(sample, seen(chain, (8, 12)), **options)


def test_a_sample_of_nothing_is_refused() -> None:
    chain = turn()
    with pytest.raises(TypeError, match="found no image in the sample"):
        chain.inverse({}, seen(chain, (8, 12)))


def test_maps_keep_their_gradient() -> None:
    chain = turn()
    maps: Tensor = torch.rand(2, 3, 2, requires_grad=True)
    chain.inverse(maps, seen(chain, (8, 12)), stride=4).sum().backward()
    assert maps.grad is not None
    torch.testing.assert_close(maps.grad, torch.full_like(maps, 16.0))


@pytest.mark.parametrize("exact", [False, True])
def test_containers_in_containers(exact: bool) -> None:
    """With `exact`, some take samples one by one that otherwise fuse."""
    either = T.RandomChoice([T.RandomRotation(30, expand=True), T.RandomPerspective(0.3, 1.0)])
    steps = T.RandomOrder([T.RandomApply([either], 0.7), T.RandomHorizontalFlip()])
    chain = T.Compose([steps], seed=1, exact=exact)
    points = torch.tensor([[40.0, 30.0], [64.0, 48.0]])
    sample = {"image": torch.rand(1, 96, 128), "keypoints": points}
    for index in range(8):
        moved, params = chain(sample, index=index, return_params=True)
        back = chain.inverse({"keypoints": moved["keypoints"]}, params)
        torch.testing.assert_close(back["keypoints"], points, atol=1e-3, rtol=0)
        again = chain(sample, params=chain.make_params(sample, index=index))
        torch.testing.assert_close(again["image"], moved["image"])


def test_what_applies_at_all_erases_its_rectangle() -> None:
    """The flag scales nothing, and numbers of what doesn't apply are not looked at."""
    chain = transforms.Compose([transforms.RandomErasing(p=1)], seed=0)
    image = torch.ones(3, 20, 30)
    erased, params = chain(image, index=0, return_params=True)
    params.steps[0]["apply"] = np.full(1, 0.5)
    assert torch.equal(chain(image, params=params), erased)
    params.steps[0]["apply"][:] = 0.0
    params.steps[0]["height"] = np.full(1, np.inf)
    assert torch.equal(chain(image, params=params), image)
