"""Quarter turns, additive colours, permutations of channels, and several views."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from visops import transforms as T

from transforms.chains import photo


def square() -> Tensor:
    return torch.arange(3 * 5 * 5, dtype=torch.uint8).reshape(3, 5, 5)


def symmetries(image: Tensor) -> list[bytes]:
    turns = [image.rot90(k, (-2, -1)) for k in range(4)]
    return [turn.contiguous().numpy().tobytes() for t in turns for turn in (t, t.flip(-1))]


def test_d4_draws_all_eight_symmetries_as_often() -> None:
    image, count = square(), 4000
    out = T.Compose([T.D4()], seed=0)(torch.stack([image] * count), index=range(count))
    found = [own.numpy().tobytes() for own in out]
    for expected in symmetries(image):
        assert abs(found.count(expected) - count / 8) < 5 * (count / 8) ** 0.5
    kept = T.Compose([T.D4(0.2)], seed=0)(torch.stack([image] * count), index=range(count))
    moved = (kept != image).flatten(1).any(1).float().mean()
    assert abs(moved - 0.2 * 7 / 8) < 0.03


@pytest.mark.parametrize("quarters", range(4))
@pytest.mark.parametrize("mirror", [False, True])
def test_turns_are_numpy_s_and_albumentations(quarters: int, mirror: bool) -> None:
    image = photo()
    step = {"apply": np.array([True]), "quarters": np.array([quarters])}
    name: Any = T.RandomRotate90()
    if mirror:
        step["mirror"], name = np.array([True]), T.D4()
    params = T.Parameters([type(name).__name__], [step], np.array([image.shape[-2:]]))
    expected = (image.flip(-1) if mirror else image).rot90(quarters, (-2, -1))
    chain = T.Compose([name])
    boxes = torch.tensor([[3.0, 5.0, 30.0, 11.0]])
    out = chain({"image": image, "boxes": boxes, "mask": image[0]}, params=params)
    assert torch.equal(out["image"], expected)
    assert torch.equal(out["mask"], expected[0])
    painted = torch.zeros(1, *image.shape[-2:])
    painted[:, 5:11, 3:30] = 1
    turned = chain(painted, params=params)[0].nonzero()
    low, high = turned.min(0).values.tolist(), (turned.max(0).values + 1).tolist()
    assert out["boxes"].tolist() == [[low[1], low[0], high[1], high[0]]]
    back = chain.inverse({"image": out["image"], "boxes": out["boxes"]}, params)
    assert torch.equal(back["image"], image)
    assert torch.equal(back["boxes"], boxes)


def test_transpose() -> None:
    image = photo()
    assert torch.equal(T.Transpose(1.0)(image), image.transpose(-1, -2))
    assert torch.equal(T.Transpose(0.0)(image), image)


def test_symmetries_fuse() -> None:
    chain = T.Compose([T.RandomResizedCrop(20), T.D4(), T.ColorJitter(0.3), T.Transpose()], seed=0)
    assert len(chain.passes) == 1
    image = photo()
    out, params = chain(image, index=3, return_params=True)
    each = image
    for transform, name, step in zip(chain.transforms, params.names, params.steps, strict=True):
        own = T.Parameters([name], [step], np.array([each.shape[-2:]]))
        each = T.Compose([transform])(each, params=own)
    assert (out.int() - each.int()).abs().max() <= 1


def test_additive_colours_are_albumentations() -> None:
    image = photo()
    values = image.permute(1, 2, 0).numpy().astype(np.float64)
    out = T.RandomBrightnessContrast((0.1, 0.1), (-0.3, -0.3), p=1)(image)
    expected = np.clip(np.rint(values * 0.7 + 0.1 * 255), 0, 255)
    assert (out.permute(1, 2, 0).numpy() == expected).mean() > 0.95  # halves
    assert abs(out.permute(1, 2, 0).numpy() - expected).max() <= 1
    out = T.RGBShift((30, 30), (-20, -20), (0, 0), p=1)(image)
    assert (out.permute(1, 2, 0).numpy() == np.clip(values + np.array([30, -20, 0]), 0, 255)).all()
    gray = T.RandomBrightnessContrast(0.5, 0.5, p=1)
    assert gray(image[:1]).shape == image[:1].shape
    _, params = T.Compose([gray])(torch.stack([image] * 2000), return_params=True)
    scale, shift = params.steps[0]["scale"], params.steps[0]["shift"]
    for drawn, middle in ((scale, 1.0), (shift, 0.0)):
        assert middle - 0.5 <= drawn.min() < middle - 0.49
        assert middle + 0.49 < drawn.max() < middle + 0.5
    assert shift.shape == (2000, 1)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_permutations_of_channels(channels: int) -> None:
    image = torch.arange(channels).reshape(channels, 1, 1).to(torch.uint8).expand(-1, 5, 6)
    batch = torch.stack([image] * 2400)
    out = T.Compose([T.RandomChannelPermutation()], seed=0)(batch, index=range(2400))
    orders, counts = torch.unique(out[..., 0, 0], dim=0, return_counts=True)
    many = int(np.prod(range(1, channels + 1)))
    assert len(orders) == many
    assert (abs(counts - 2400 / many) < 5 * (2400 / many) ** 0.5 + 1).all()


def views_of(**options: Any) -> Any:
    crop = T.Compose([T.RandomResizedCrop(24)], seed=5)
    small = T.Compose([T.RandomResizedCrop(16), T.RandomHorizontalFlip()], seed=5)
    return T.Views([crop, crop, small], **options)


def test_views_draw_for_themselves() -> None:
    image, views = photo(), views_of()
    for index in range(50):
        first, second, third = views(image, index=index)
        assert first.shape == second.shape == (3, 24, 24)
        assert third.shape == (3, 16, 16)
        assert not torch.equal(first, second)
        again = views(image, index=index)
        assert all(map(torch.equal, again, (first, second, third)))
    other = views_of(seed=6)(image, index=0)
    assert not torch.equal(other[0], views(image, index=0)[0])


def test_views_in_a_data_set_and_in_batches() -> None:
    views = views_of()
    data = T.IndexedDataset([(photo(), i) for i in range(4)], views)
    (first, label), (second, _), _ = data[2]
    assert label == 2
    assert torch.equal(first, views(photo(), index=2)[0])
    assert torch.equal(second, views(photo(), index=2)[1])
    samples = [{"image": photo(), "index": i} for i in range(4)]
    batches = views.collate(samples)
    assert [b["image"].shape for b in batches] == [(4, 3, 24, 24)] * 2 + [(4, 3, 16, 16)]
    assert torch.equal(batches[1]["image"][2], second)
    for twin in (copy.deepcopy(views), pickle.loads(pickle.dumps(views))):
        assert torch.equal(twin(photo(), index=2)[1], second)
    unseeded = T.Views([[T.RandomResizedCrop(8)], T.RandomResizedCrop(8)])
    torch.manual_seed(0)
    one, two = unseeded(photo())
    assert not torch.equal(one, two)
    assert "pass 1" in repr(unseeded)


SQUARE = square()
ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: T.D4(3), ValueError, "D4: p is 3, must be a probability in [0, 1]"),
    (
        lambda: T.Compose([T.RandomRotate90(1)], seed=1)(torch.zeros(9, 3, 4, 5), index=range(9)),
        ValueError,
        "must be the same in a batch",
    ),
    (
        lambda: T.RandomBrightnessContrast(2),
        ValueError,
        "RandomBrightnessContrast: brightness_limit is 2, must be a number in [0, 1] or two in",
    ),
    (
        lambda: T.RGBShift()(SQUARE[:1]),
        ValueError,
        "RGBShift: the image has 1 channels, must have 3",
    ),
    (
        lambda: T.RandomChannelPermutation()(torch.zeros(7, 9, 9)),
        ValueError,
        "RandomChannelPermutation: the image has 7 channels, must have 1, 2, 3 or 4",
    ),
    (lambda: T.Views([]), TypeError, "Views: chains is [], must be a sequence of at least one ch"),
    (
        lambda: T.Views([T.Compose([T.Pad(1)], seed=0), T.Compose([T.Pad(1)])]),
        ValueError,
        "must be all with a seed, or all without",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[m for _, _, m in ERRORS])
def test_errors(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)
