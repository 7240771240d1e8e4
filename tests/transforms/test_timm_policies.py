"""timm's RandAugment by its strings: what it draws, and Pillow's values."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor
from visops import transforms as T

from transforms.chains import photo, run_torch_operators

OPERATIONS = (
    *("none", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color"),
    *("Contrast", "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize", "Invert"),
    "SolarizeAdd",
)
MOVING = OPERATIONS[1:6]


def picture() -> Tensor:
    return photo()[:, 60:160, 100:230].contiguous()


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
    image, name = picture(), OPERATIONS[position]
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


def test_draws() -> None:
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
