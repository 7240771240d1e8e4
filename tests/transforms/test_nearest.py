"""Nearest resizing takes exactly the pixel that integer arithmetic gives, also on ties."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch import Tensor
from visops import transforms as T

DTYPES = (torch.float32, torch.float64, torch.uint8)


def expected(length: int, size: int) -> Tensor:
    """Return floor((i + 1/2) length / size) for each i, without rounding errors."""
    return torch.tensor([(2 * i + 1) * length // (2 * size) for i in range(size)])


def has_ties(length: int, size: int) -> bool:
    return any((2 * i + 1) * length % (2 * size) == 0 for i in range(size))


def resized(chain: Any, length: int, dtype: torch.dtype) -> list[Tensor]:
    """Return the columns and rows that a chain takes, of an image and of a mask."""
    pixels = torch.arange(length)
    columns, rows = pixels.expand(1, 3, length), pixels[:, None].expand(1, length, 3)
    found = []
    for image in (columns, rows):
        out = chain({"image": image.to(dtype), "mask": image[0]})
        take = (lambda x: x[0, 0]) if image is columns else (lambda x: x[0, :, 0])
        found += [take(out["image"]).long(), take(out["mask"][None])]
    return found


def test_two_pixels_become_five() -> None:
    out = T.Resize((1, 5), "nearest")(torch.tensor([[[0.0, 1.0]]]))
    assert out.flatten().tolist() == [0, 0, 1, 1, 1]


def test_the_ties_of_an_axis_depend_on_its_own_length() -> None:
    """Four and a half of nine pixels lie between two; the other axis has one pixel, or 90."""
    wanted = expected(2, 9)
    for other in (1, 90):
        down = T.Resize((9, other), "nearest")(torch.tensor([[[0.0], [1.0]]]))
        across = T.Resize((other, 9), "nearest")(torch.tensor([[[0.0, 1.0]]]))
        assert torch.equal(down[0, :, 0].long(), wanted)
        assert torch.equal(across[0, 0].long(), wanted)


def test_a_perspective_has_no_ties() -> None:
    """A shift would be another one at each pixel: results are those of the matrix itself."""
    warp = T.RandomPerspective(0.4, 1.0, "nearest", fill=300)
    chain = T.Compose([T.Resize(224, "nearest"), warp], seed=0, mask_fill=300)
    assert len(chain.passes) == 1
    image = torch.arange(256.0).expand(1, 256, 256)
    sample = {"image": image, "mask": image[0].long()}
    for index in range(3):
        out, params = chain(sample, index=index, return_params=True)
        plan = T.Plan(T.Canvas(256.0, 256.0, 1), dtype=torch.float32)
        for step, drawn in zip(chain.transforms, params.steps, strict=True):
            step.extend(plan, {name: value[0] for name, value in drawn.items()})
        options: Any = {"mode": "nearest", "fill": 300, "convention": "half_pixel"}
        wanted = visops.augment(image[None], plan.matrices, (224, 224), **options)[0]
        for found in (out, chain(sample, index=index)):
            assert torch.equal(found["image"], wanted)
            assert torch.equal(found["mask"], wanted[0].long())


def test_every_size_is_exact() -> None:
    rng = np.random.default_rng(3)
    pairs = [(256, 224), (640, 416), (2, 5), (250, 60), *rng.integers(1, 250, (40, 2)).tolist()]
    assert sum(has_ties(*pair) for pair in pairs) > 12
    for case, (length, size) in enumerate(pairs):
        dtype = DTYPES[case % 3] if length <= 256 else torch.float32
        for own in resized(T.Resize((size, size), "nearest"), length, dtype):
            assert torch.equal(own, expected(length, size)), (length, size, dtype)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_masks_are_exact_whatever_the_image_takes(interpolation: str, exact: bool) -> None:
    mask = torch.arange(256).expand(256, 256)
    chain = T.Compose([T.Resize(224, interpolation)], exact=exact)
    out = chain({"image": torch.zeros(3, 256, 256), "mask": mask})["mask"]
    assert torch.equal(out[0], expected(256, 224))


def test_ties_survive_flips_crops_and_turns() -> None:
    wanted = expected(256, 224)
    resize = T.Resize(224, "nearest")
    mirrored, turned = T.RandomHorizontalFlip(1.0), T.RandomRotation((90, 90), "nearest")
    chains = {
        (resize, T.CenterCrop(200)): wanted[12:-12],
        (resize, mirrored): wanted.flip(0),
        (mirrored, resize): 255 - wanted,
        (resize, turned): wanted,
    }
    for chain, columns in chains.items():
        composed = T.Compose(list(chain))
        assert len(composed.passes) == 1
        image = torch.arange(256.0).expand(1, 256, 256)
        out = composed({"image": image, "mask": image[0].long()})
        for own in (out["image"][0], out["mask"]):
            # A quarter turn to the left takes the columns, last first, to the rows.
            taken = own[:, 0].flip(0) if turned in chain else own[0]
            assert torch.equal(taken.long(), columns), chain


def test_later_calls_are_exact_too() -> None:
    """The first call of a chain runs in Python, and those after it in C++."""
    chain = T.Compose([T.RandomHorizontalFlip(1.0), T.Resize(224, "nearest")])
    image = torch.arange(256.0).repeat(1, 256, 1)
    for _ in range(3):
        assert torch.equal(chain(image)[0, 0].long(), 255 - expected(256, 224))


def test_samples_of_a_batch_have_ties_of_their_own() -> None:
    lengths = [256, 224, 448, 2]
    images = [torch.arange(float(n)).expand(1, n, n) for n in lengths]
    for out, n in zip(T.Resize((224, 224), "nearest")(images), lengths, strict=True):
        assert torch.equal(out[0, 0].long(), expected(n, 224)), n
        assert torch.equal(out[0, :, 0], torch.full((224,), out[0, 0, 0].item()))


def test_cropped_and_resized() -> None:
    crop = T.RandomResizedCrop(60, (0.2, 0.9), interpolation="nearest")
    image = torch.arange(250.0).expand(1, 250, 250)
    chain = T.Compose([crop], seed=0)
    ties = 0
    for index in range(30):
        out, params = chain(image, index=index, return_params=True)
        left, width = (int(params.steps[0][name][0]) for name in ("left", "width"))
        assert torch.equal(out[0, 0].long(), left + expected(width, 60))
        ties += has_ties(width, 60)
    assert ties > 5


def test_boxes_do_not_move_with_ties() -> None:
    sample = {"image": torch.zeros(1, 256, 256), "boxes": torch.tensor([[0.0, 16, 128, 256]])}
    boxes = T.Resize(224, "nearest")(sample)["boxes"]
    assert boxes.tolist() == [[0.0, 14.0, 112.0, 224.0]]


def test_mirrors_of_nothing_are_nothing() -> None:
    for shape in ((3, 0, 10), (3, 10, 0)):
        plan = T.Plan(T.Canvas(float(shape[1]), float(shape[2])))
        T.RandomHorizontalFlip(1.0).extend(plan, {"apply": True})
        assert plan.ties.tolist() == [[0.0, 0.0]]


def test_very_long_images_are_exact() -> None:
    for length, size in ((20000, 17500), (20000, 17499), (20000, 128), (16384, 20000)):
        image = torch.arange(length, dtype=torch.float64).expand(1, 1, length)
        out = T.Resize((1, size), "nearest")(image.float())
        assert torch.equal(out[0, 0].long(), expected(length, size)), (length, size)
