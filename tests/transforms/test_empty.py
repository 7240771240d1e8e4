"""Batches without a sample, and images without a pixel."""

from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check
from visops import transforms

from transforms.chains import CHAINS

T: Any = transforms


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", CHAINS)
def test_no_samples_in_no_samples_out(name: str, exact: bool) -> None:
    chain = T.Compose(CHAINS[name](), exact=exact)
    images = torch.randint(0, 256, (2, 3, 120, 130), dtype=torch.uint8)
    expected = chain(images)
    for empty in (images[:0], np.zeros((0, 120, 130, 3), np.uint8)):
        result = chain(empty)
        assert result.shape == (0, *expected.shape[1:])
        assert result.dtype == expected.dtype


def test_empty_targets_and_labels() -> None:
    chain = T.Compose([T.RandomResizedCrop((8, 9)), T.RandomRotation(9)], seed=0)
    sample = {
        "image": torch.zeros(0, 3, 20, 30),
        "mask": torch.zeros(0, 20, 30, dtype=torch.int64),
        "boxes": torch.zeros(0, 5, 4),
        "labels": torch.zeros(0, 5, dtype=torch.int32),
        "keypoints": np.zeros((0, 7, 2), np.float32),
        "name": [],
        "classes": torch.zeros(0),
    }
    result, params = chain(sample, index=[], return_params=True)
    shapes = {key: tuple(value.shape) for key, value in result.items() if key != "name"}
    assert shapes == {
        "image": (0, 3, 8, 9),
        "mask": (0, 8, 9),
        "boxes": (0, 5, 4),
        "labels": (0, 5),
        "keypoints": (0, 7, 2),
        "keypoints_visible": (0, 7),
        "classes": (0,),
    }
    assert result["mask"].dtype == torch.int64
    assert result["keypoints"].dtype == np.float32
    assert params.size.shape == (0, 2)
    assert {len(array) for step in params.steps for array in step.values()} == {0}
    dry = chain.make_params(sample)
    assert [sorted(step) for step in dry.steps] == [sorted(step) for step in params.steps]
    lists = {"image": torch.zeros(0, 3, 20, 30), "boxes": [], "labels": []}
    result = T.Compose(chain.transforms, boxes="sanitize")(lists)
    assert (result["image"].shape, result["boxes"]) == ((0, 3, 8, 9), [])


def test_empty_batches_of_tv_tensors_and_other_transforms() -> None:
    tv = pytest.importorskip("torchvision.tv_tensors")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    chain = T.Compose([T.Pad(1), v2.RandomHorizontalFlip(1.0), v2.Resize((5, 6))])
    points = tv.KeyPoints(torch.zeros(0, 2, 2), canvas_size=(20, 30))
    video = tv.Video(torch.zeros(0, 4, 3, 20, 30))
    result = chain({"image": video, "points": points})
    assert result["image"].shape == (0, 4, 3, 5, 6)
    assert type(result["image"]) is tv.Video
    assert result["points"].shape == (0, 2, 2)
    assert tuple(result["points"].canvas_size) == (5, 6)


def test_empty_batches_draw_nothing() -> None:
    state = torch.get_rng_state()
    T.Compose([T.RandomRotation(9)])(torch.zeros(0, 3, 10, 10))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("transform", [T.RandomHorizontalFlip(1.0), T.Resize(4), T.Resize((4, 4))])
def test_images_without_pixels_are_refused(transform: Any) -> None:
    for shape, text in (((3, 0, 10), "0 rows and 10"), ((3, 10, 0), "10 rows and 0")):
        message = f"transforms: the sample has {text} columns, must have at least one of each"
        check(ValueError, message, lambda shape=shape: transform(torch.zeros(shape)))  # type: ignore[misc]
    message = "transforms: sample['image'][1] has 0 rows and 5 columns, must have at least one"
    images = [torch.zeros(3, 4, 5), torch.zeros(3, 0, 5)]
    check(ValueError, message, lambda: transform({"image": images}))
