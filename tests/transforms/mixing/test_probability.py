"""`p`: samples that aren't mixed stay alone, with all that belongs to them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from visops import transforms

T: Any = transforms
COUNT, SIZE = 12, (24, 32)


def batch() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    boxes = [
        torch.tensor([[2.0, 3, 12, 15], [8, 4, 30, 20]])[: 1 + index % 2] for index in range(COUNT)
    ]
    masks = [torch.zeros(len(own), *SIZE, dtype=torch.uint8) for own in boxes]
    for own, mask in zip(boxes, masks, strict=True):
        for (x1, y1, x2, y2), plane in zip(own.int().tolist(), mask, strict=True):
            plane[y1:y2, x1:x2] = 1
    images = torch.rand(COUNT, 3, *SIZE, generator=generator)
    images[:, 0, 0, 0] = torch.inf  # what a weight of 0 would turn into NaN
    return {
        "image": images,
        "boxes": boxes,
        "masks": masks,
        "labels": [torch.full((len(own),), index) for index, own in enumerate(boxes)],
    }


MIXES: dict[str, Callable[..., Any]] = {
    "MixUp": lambda **options: T.MixUp(labels_getter=None, **options),
    "CutMix": lambda **options: T.CutMix(labels_getter=None, **options),
    "CutMix, kept": lambda **options: T.CutMix(labels_getter=None, boxes="keep", **options),
    "CopyPaste": lambda **options: T.CopyPaste(**options),
}


@pytest.mark.parametrize("name", MIXES)
def test_samples_that_are_not_mixed_stay(name: str) -> None:
    given = batch()
    found, params = MIXES[name](p=0.5, seed=3)(given, return_params=True)
    mixed = params.steps[0]["mixed"]
    assert 0 < mixed.sum() < COUNT
    for index in range(COUNT):
        same = torch.equal(found["image"][index], given["image"][index])
        assert same == (not mixed[index])
        if not mixed[index]:
            for key in ("boxes", "masks", "labels"):
                assert torch.equal(found[key][index], given[key][index])
        else:
            assert len(found["labels"][index]) == len(found["boxes"][index])
    again = MIXES[name](p=0.5)(given, params=params)
    assert torch.equal(again["image"], found["image"])


@pytest.mark.parametrize("name", MIXES)
def test_probabilities_of_one_and_none(name: str) -> None:
    given = batch()
    plain, params = MIXES[name](seed=3)(given, return_params=True)
    assert "mixed" not in params.steps[0]
    always = MIXES[name](seed=3, p=1.0)(given)
    assert torch.equal(always["image"], plain["image"])
    never = MIXES[name](seed=3, p=0.0)(given)
    assert torch.equal(never["image"], given["image"])
    assert all(map(torch.equal, never["boxes"], given["boxes"]))


@pytest.mark.parametrize("name", ["MixUp", "CutMix"])
def test_labels_of_images(name: str) -> None:
    images, labels = batch()["image"].nan_to_num(posinf=1.0), torch.arange(COUNT)
    mix = getattr(T, name)(num_classes=COUNT, p=0.4, seed=1)
    (_, found), params = mix(images, labels, return_params=True)
    for index, mixed in enumerate(params.steps[0]["mixed"]):
        assert bool(found[index, index] == 1.0) >= (not mixed)
        assert found[index].sum() == pytest.approx(1.0)


MOVEMENTS: list[dict[str, Any]] = [{}, {"scale": (1.0, 1.0)}, {"degrees": (90, 90)}]


@pytest.mark.parametrize("movement", MOVEMENTS, ids=str)
def test_images_alone_on_a_canvas(movement: dict[str, Any]) -> None:
    """As `Letterbox` puts them into the result, turned where the canvas turns."""
    given = batch()
    given["image"] = (given["image"].nan_to_num(posinf=1.0) * 255).to(torch.uint8)
    mosaic = T.Mosaic((32, 32), p=0.5, seed=2, fill=9, mask_fill=7, **movement)
    found, params = mosaic(given, return_params=True)
    size = (32, 32) if movement else (64, 64)
    steps = [T.Letterbox(size, fill=9)]
    if "degrees" in movement:
        steps.append(T.RandomAffine((90, 90), fill=9))
    alone = T.Compose(steps, boxes="sanitize", seed=0)
    mixed = params.steps[0]["mixed"]
    assert 0 < mixed.sum() < COUNT
    for index in np.flatnonzero(~mixed):
        own = alone({key: value[index] for key, value in given.items()})
        difference = (own["image"].int() - found["image"][index].int()).abs()
        assert int(difference.max()) == 0
        for key in ("boxes", "labels"):
            assert torch.allclose(own[key].float(), found[key][index].float(), atol=1e-4)
        assert torch.equal(own["masks"], found["masks"][index])
    for index in np.flatnonzero(mixed):
        assert found["image"][index].shape == (3, *size)


def test_a_canvas_that_shrinks_is_filled_around_an_image() -> None:
    images = torch.zeros(6, 1, 16, 16, dtype=torch.uint8)
    mosaic = T.Mosaic(16, p=0.0, seed=0, fill=200, scale=(0.5, 0.5))
    found = mosaic(images)
    assert (found[:, :, 4:12, 4:12] == 0).all()
    assert (found == 0).sum() == 6 * 64
    assert (found == 200).sum() == 6 * (256 - 64)


@pytest.mark.parametrize("name", ["MixUp", "CutMix", "CopyPaste", "Mosaic"])
@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan"), "half", None])
def test_errors(name: str, p: Any) -> None:
    size = (8,) if name == "Mosaic" else ()
    with pytest.raises((TypeError, ValueError), match=rf"{name}: p is .*must be a number in \[0"):
        getattr(T, name)(*size, p=p)
