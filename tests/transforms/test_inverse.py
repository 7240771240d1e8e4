"""The inverse of what has no image: boxes, points, and maps of another stride."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from visops import transforms as T

from transforms.chains import photo


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
def test_interpolation_is_the_chain_s_but_of_small_maps(own: str) -> None:
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
