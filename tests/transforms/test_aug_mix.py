"""AugMix against torchvision's."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from torchvision.transforms import v2
from visops import transforms as T

BATCH = 600
PHOTO = torch.randint(0, 256, (3, 27, 45), dtype=torch.uint8, generator=torch.manual_seed(3))
SMOOTH = torch.nn.functional.interpolate(PHOTO[None].float(), (81, 90), mode="bicubic")
PICTURE = SMOOTH[0].round().clamp(0, 255).byte()


def drawn(**options: Any) -> dict[str, np.ndarray]:
    chain = T.Compose([T.AugMix(**options)], seed=1)
    images = torch.zeros(BATCH, 3, 27, 45, dtype=torch.uint8)
    return chain.make_params(images, index=range(BATCH)).steps[0]  # type: ignore[no-any-return]


class Replayed(v2.AugMix):
    """torchvision's class with the numbers that ours has drawn."""

    def __init__(self, params: dict[str, np.ndarray], **options: Any) -> None:
        super().__init__(**options)
        weights = params["weights"][0]
        rest = weights[1:].sum()
        both = np.array([weights[0], rest]), weights[1:] / rest
        self.given = [torch.from_numpy(own)[None].float() for own in both]
        self.names = [
            [OPERATIONS[int(own)] for own in chain if own] for chain in params["operations"][0]
        ]
        self.magnitudes = [
            [m for m, own in zip(*both, strict=True) if own]
            for both in zip(params["magnitudes"][0], params["operations"][0], strict=True)
        ]

    def _sample_dirichlet(self, params: torch.Tensor) -> torch.Tensor:
        return self.given.pop(0)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        m = self._sample_dirichlet(torch.ones(1, 2))
        combined = self._sample_dirichlet(torch.ones(1, len(self.names))) * m[:, 1]
        mix = m[0, 0] * image
        for index, (names, own) in enumerate(zip(self.names, self.magnitudes, strict=True)):
            moved: Any = image
            for name, magnitude in zip(names, own, strict=True):
                moved = self._apply_image_or_video_transform(
                    moved, name, magnitude, interpolation=self.interpolation, fill=self._fill
                )
            mix.add_(combined[0, index] * moved)
        return mix.to(image.dtype)


OPERATIONS = (
    *("Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"),
    *("Brightness", "Color", "Contrast", "Sharpness", "Posterize", "Solarize"),
    *("AutoContrast", "Equalize"),
)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32], ids=str)
@pytest.mark.parametrize("severity", [3, 10])
def test_values(dtype: torch.dtype, severity: int) -> None:
    image = PICTURE if dtype == torch.uint8 else PICTURE / 255
    options: dict[str, Any] = {"interpolation": v2.InterpolationMode.BILINEAR}
    chain = T.Compose([T.AugMix(severity, **options)], seed=0)
    for index in range(12):
        mixed, params = chain(image, index=index, return_params=True)
        expected = Replayed(params.steps[0], **options)(image)
        assert mixed.dtype == dtype
        difference = (mixed.double() - expected.double()).abs()
        white = 255 if dtype == torch.uint8 else 1
        # Interpolated and rounded values may differ by a level, and then go through a threshold.
        assert difference.mean() < 0.01 * white
        assert (difference > 2 / 255 * white).double().mean() < 0.03


def test_draws() -> None:
    params = drawn()
    weights, operations, magnitudes = (
        params[name] for name in ("weights", "operations", "magnitudes")
    )
    assert weights.shape == (BATCH, 4)
    assert operations.shape == magnitudes.shape == (BATCH, 3, 3)
    assert np.allclose(weights.sum(1), 1)
    # Beta(1, 1) is uniform; a Dirichlet share of three has a mean of 1/3 and a variance of 1/18.
    assert abs(weights[:, 0].mean() - 0.5) < 0.05
    assert abs(weights[:, 0].var() - 1 / 12) < 0.01
    share = weights[:, 1] / weights[:, 1:].sum(1)
    assert abs(share.mean() - 1 / 3) < 0.05
    assert abs(share.var() - 1 / 18) < 0.012
    depth = (operations > 0).sum(2)
    counts = np.bincount(depth.ravel(), minlength=4)
    assert counts[0] == 0
    assert (abs(counts[1:] / depth.size - 1 / 3) < 0.05).all()
    assert ((operations[..., :-1] > 0) | (operations[..., 1:] == 0)).all()
    each = np.bincount(operations[operations > 0], minlength=14)[1:] / depth.sum()
    assert (abs(each - 1 / 13) < 0.02).all()
    turned = magnitudes[operations == 5]
    assert set(abs(turned).round(4)) == {0.0, round(30 / 9, 4), round(60 / 9, 4)}
    assert 0.35 < (turned[turned != 0] < 0).mean() < 0.65
    assert set(magnitudes[operations == 10]) == {4.0, 3.0}  # bits: 4, round(3.56) = 4, round(3.1)
    assert set(abs(magnitudes[operations == 3])) == {
        abs(float(own)) for own in torch.linspace(0.0, 15.0, 10)[:3]
    }
    some = drawn(all_ops=False, chain_depth=2, mixture_width=5, severity=1)
    assert some["operations"].shape == (BATCH, 5, 2)
    assert set(some["operations"].ravel()) == {1, 2, 3, 4, 5, 10, 11, 12, 13}


def test_samples_do_not_depend_on_their_batch() -> None:
    chain = T.Compose([T.RandomApply([T.AugMix()], 0.6), T.RandomHorizontalFlip()], seed=2)
    batch = PICTURE.expand(8, -1, -1, -1)
    whole, params = chain(batch, index=range(8), return_params=True)
    applies = params.steps[0]["apply"]
    assert 0 < applies.sum() < 8
    for index in range(8):
        assert torch.equal(chain(PICTURE, index=index), whole[index])
    assert torch.equal(chain(batch, params=params), whole)
    listed = chain([PICTURE, PICTURE], index=[0, 1])
    assert torch.equal(listed[0], whole[0])
    assert torch.equal(listed[1], whole[1])


def test_targets_stay() -> None:
    sample = {"image": PICTURE, "mask": PICTURE[0], "boxes": torch.tensor([[1.0, 2, 9, 9]])}
    found = T.AugMix()(sample)
    assert torch.equal(found["mask"], PICTURE[0])
    assert torch.equal(found["boxes"], sample["boxes"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: T.AugMix(11), "AugMix: severity is 11, must be a whole number from 1 to 10"),
        (lambda: T.AugMix(mixture_width=0), "mixture_width is 0, must be a whole number from 1"),
        (lambda: T.AugMix(alpha=0), "alpha is 0, must be a number in [0.001, 1e6]"),
        (lambda: T.AugMix(chain_depth=17), "chain_depth is 17, must be a whole number up to 16"),
        (lambda: T.AugMix()(torch.zeros(2, 8, 8)), "the image has 2 channels, must have 1 or 3"),
    ],
)
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()
