"""AugMix and timm's RandAugment: what they draw, and their peers' values."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor
from torchvision.transforms import v2
from visops import transforms as T

from transforms.chains import run_torch_operators
from transforms.pixels.steps import picture

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


TIMM_OPERATIONS = (
    *("none", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color"),
    *("Contrast", "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize", "Invert"),
    "SolarizeAdd",
)

MOVING = TIMM_OPERATIONS[1:6]


def by_pillow(image: Tensor, name: str, magnitude: float) -> np.ndarray:
    """What timm's functions do, bilinearly."""
    own = Image.fromarray(image.permute(1, 2, 0).numpy())
    m: Any = magnitude
    fill: Any = {"fillcolor": (128, 128, 128), "resample": Image.Resampling.BILINEAR}
    affine = {
        "ShearX": (1, m, 0, 0, 1, 0),
        "ShearY": (1, 0, 0, m, 1, 0),
        "TranslateX": (1, 0, -m, 0, 1, 0),
        "TranslateY": (1, 0, 0, 0, 1, -m),
    }
    if name in affine:
        out = own.transform(own.size, Image.Transform.AFFINE, affine[name], **fill)
    elif name == "Rotate":
        out = own.rotate(m, fillcolor=fill["fillcolor"], resample=fill["resample"])
    elif name in ("Brightness", "Color", "Contrast", "Sharpness"):
        out = getattr(ImageEnhance, name)(own).enhance(1.0 + m)
    elif name == "Posterize":
        # Pillow refuses to keep no bit.
        out = ImageOps.posterize(own, int(m)) if m > 0 else Image.new("RGB", own.size)
    elif name == "Solarize":
        out = ImageOps.solarize(own, math.ceil(m * 255.0))
    elif name == "SolarizeAdd":
        table = [min(255, i + int(m)) if i < 128 else i for i in range(256)]
        out = own.point(table * 3)
    elif name == "none":
        out = own
    else:
        call = {"AutoContrast": "autocontrast"}.get(name, name.lower())
        out = getattr(ImageOps, call)(own)
    return np.asarray(out).transpose(2, 0, 1)


@pytest.mark.parametrize("position", range(1, 16))
@pytest.mark.parametrize("increasing", [0, 1])
def test_operations_are_pillow_s(position: int, increasing: int) -> None:
    image, name = picture(), TIMM_OPERATIONS[position]
    chain = T.Compose([T.from_timm(f"rand-m7-n1-p1-mstd1-inc{increasing}")], seed=0)
    seen = 0
    for index in range(200):
        params = chain.make_params(image, index=index)
        step = params.steps[0]
        if step["operation_0"][0] != position:
            continue
        seen += 1
        found = chain(image, index=index).numpy().astype(int)
        expected = by_pillow(image, name, float(step["magnitude_0"][0])).astype(int)
        distance = np.abs(found - expected)
        if name in MOVING:
            distance = distance[:, 3:-3, 3:-3]
            assert np.median(distance) <= 1
            assert (distance > 3).mean() < 0.06  # edges towards the fill
        elif name in ("Color", "Contrast", "Sharpness", "Brightness", "AutoContrast"):
            assert distance.max() <= 2
        else:
            assert distance.max() == 0, (name, step)
        if seen == 4:
            return
    assert seen > 0


def test_what_timm_draws() -> None:
    image = torch.zeros(3, 50, 80, dtype=torch.uint8)
    chain = T.Compose([T.from_timm("rand-m9-mstd0.5-inc1")], seed=0)
    batch = image.expand(9000, 3, 50, 80)
    step = chain.make_params(batch, index=range(9000)).steps[0]
    assert set(step) == {"operation_0", "magnitude_0", "operation_1", "magnitude_1"}
    counts = np.bincount(step["operation_0"].astype(int), minlength=16)
    assert abs(counts[0] - 4500) < 200
    assert (np.abs(counts[1:] - 300) < 90).all()
    angles = step["magnitude_0"][step["operation_0"] == 5]
    assert abs((angles < 0).mean() - 0.5) < 0.12
    assert abs(np.abs(angles).mean() - 27) < 0.4
    assert np.abs(angles).max() <= 30
    assert 0.7 < np.abs(angles)[np.abs(angles) < 30].std() < 1.6
    shifts = np.abs(step["magnitude_0"][step["operation_0"] == 3])
    assert abs(shifts.mean() - 0.9 * 0.45 * 80) < 0.5
    factors = step["magnitude_0"][step["operation_0"] == 7]
    assert abs(np.abs(factors).mean() - 0.81) < 0.02
    bits = step["magnitude_0"][step["operation_0"] == 10]
    assert set(bits) <= {0.0, 1.0}
    assert (bits == 1.0).mean() > 0.9
    uniform = T.Compose([T.from_timm("rand-m10-n1-p1-mstd101")], seed=0)
    step = uniform.make_params(batch, index=range(9000)).steps[0]
    angles = np.abs(step["magnitude_0"][step["operation_0"] == 5])
    assert abs(angles.mean() - 15) < 1.2
    strong = T.Compose([T.from_timm("rand-m18-n1-p1-mmax20")], seed=0)
    step = strong.make_params(batch, index=range(9000)).steps[0]
    assert np.allclose(np.abs(step["magnitude_0"][step["operation_0"] == 5]), 54.0)


def test_targets_follow_and_torch_s_operators_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    image = picture()
    chain = T.Compose([T.from_timm("rand-m9-n3-p1-mstd0.5")], seed=0)
    sample = {"image": image, "boxes": torch.tensor([[20.0, 20, 60, 70]])}
    outs = [chain(sample, index=i) for i in range(30)]
    assert any(not torch.equal(out["boxes"], sample["boxes"]) for out in outs)
    run_torch_operators(monkeypatch)
    for index, out in enumerate(outs):
        again = chain(sample, index=index)["image"]
        distance = (again.int() - out["image"].int()).abs()
        assert (distance > 1).float().mean() < 0.02


@pytest.mark.parametrize(
    "config", ["m9", "rand-x3", "rand-m9-t3a", "rand-m2.5", "rand-n0", "rand-p2"]
)
def test_other_strings_are_refused(config: str) -> None:
    with pytest.raises(ValueError, match=f"from_timm: config is '{config}', must be 'rand-' and"):
        T.from_timm(config)
    with pytest.raises(TypeError, match="from_timm: config is 3, must be"):
        T.from_timm(3)  # type: ignore[arg-type]
