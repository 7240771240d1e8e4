"""Which transforms share a pass, what the pass does, and what print() says."""

from typing import Any

import numpy as np
import pytest
import torch
from visops import transforms as T
from visops.transforms import Canvas, Plan
from visops.transforms.chain.fuse import split_passes

from transforms.chains import classification, drawn

FLOAT = {"dtype": torch.float32, "scale": True}


class Blur:
    """Not a transform of this package."""

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return image * 0.5


def to_float() -> T.ToDtype:
    return T.ToDtype(torch.float32, scale=True)


def normalize() -> T.Normalize:
    return T.Normalize([0.5], [0.5])


# What one pass does, exact or not.
ONE_PASS: dict[str, list[Any]] = {
    "classification": classification(),
    "evaluation": [T.Resize(8), T.CenterCrop(6), to_float(), normalize()],
    "flips and crops move by whole pixels": [
        T.RandomRotation(9, interpolation="nearest"),
        T.RandomCrop(4),
        T.RandomHorizontalFlip(),
    ],
    "equal fills": [T.Pad(9, fill=(3, 3, 3)), T.RandomCrop(9, padding=1, fill=3)],
    "crop of an image large enough": [
        *(T.Resize(9), T.RandomRotation(9, fill=3), T.CenterCrop(9), T.CenterCrop((8, 9)))
    ],
    "padding of an image large enough": [
        T.RandomResizedCrop(9),
        T.RandomAffine(9, fill=3),
        T.RandomCrop(9, pad_if_needed=True),
    ],
    "reflection after Normalize": [to_float(), normalize(), T.Pad(3, padding_mode="reflect")],
    "zeros after ToDtype": [to_float(), T.RandomRotation(9)],
    "Normalize after an erase": [T.RandomErasing(), to_float(), normalize()],
    "two equal erases": [T.RandomErasing(value=2), T.RandomErasing(value=2)],
    "as many colour steps as there may be": [T.ColorJitter(0.1, 0.1, 0.1, 0.1)] * 2,
    "contained after a turn": [T.RandomRotation(9), T.RandomCrop(3), T.Resize(9)],
    "crop before a turn": [T.RandomResizedCrop(9), T.RandomRotation(9)],
}

BLUR = ("Blur is not one of visops", "Blur ends its pass")

# The same, followed by what begins another pass, and why.
SPLITS: dict[str, tuple[list[Any], *tuple[str, ...]]] = {
    "interpolation": (
        [T.RandomAffine(9), T.RandomHorizontalFlip(), T.RandomRotation(9, interpolation="nearest")],
        "RandomRotation has interpolation 'nearest' after 'bilinear'",
    ),
    "antialias": (
        [T.Resize(9, antialias=False), T.RandomRotation(3), T.RandomResizedCrop(9)],
        "RandomResizedCrop has antialias=True after antialias=False",
    ),
    "fill": (
        [T.RandomAffine(9, fill=3), T.RandomCrop(3), T.Pad(2, fill=(1, 2, 3))],
        "Pad has fill (1, 2, 3) after 3",
    ),
    "padding mode": (
        [T.Pad(9, padding_mode="reflect"), T.RandomHorizontalFlip(), T.CenterCrop(9)],
        "CenterCrop pads with 'constant' after 'reflect'",
    ),
    "crop of an image that may be too small": (
        [T.Resize(9), T.RandomRotation(9, fill=3, expand=True), T.CenterCrop(8)],
        "CenterCrop has fill 0 after 3",
    ),
    "crop of an image that is too small": (
        [T.Resize((9, 7)), T.RandomAffine(9, fill=3), T.CenterCrop(8)],
        "CenterCrop has fill 0 after 3",
    ),
    "resized to an unknown size": (
        [T.Resize(9, max_size=10), T.RandomAffine(9, fill=3), T.CenterCrop(8)],
        "CenterCrop has fill 0 after 3",
    ),
    "fill after Normalize": (
        [to_float(), normalize(), T.RandomHorizontalFlip(), T.RandomRotation(9)],
        "RandomRotation can show its fill after Normalize",
    ),
    "fill after ToDtype": (
        [to_float(), T.RandomRotation(9, fill=0.5)],
        "RandomRotation can show its fill after ToDtype",
    ),
    "geometry after an erase": (
        [T.RandomErasing(), T.RandomHorizontalFlip()],
        "RandomHorizontalFlip moves the erased rectangle",
    ),
    "colour after an erase": (
        [T.RandomErasing(), T.ColorJitter(0.3)],
        "ColorJitter changes colours after the erased rectangle",
    ),
    "two erases": (
        [T.RandomErasing(value=1), T.RandomErasing(value=[1, 2])],
        "RandomErasing erases with another value",
    ),
    "erases in other units": (
        [T.RandomErasing(value=1), to_float(), T.RandomErasing(value=1)],
        "RandomErasing erases again, in other units",
    ),
    "random values": (
        [to_float(), T.RandomErasing(value="random"), T.RandomHorizontalFlip()],
        "RandomErasing: it erases with random values",
        "RandomErasing ends its pass",
    ),
    "colour after Normalize": (
        [to_float(), normalize(), T.RandomGrayscale()],
        "RandomGrayscale changes colours after Normalize",
    ),
    "many colour steps": (
        [T.ColorJitter(0.1, 0.1, 0.1, 0.1), T.ColorJitter(0.1, 0.1, 0.1, 0.1), T.RandomGrayscale()],
        "RandomGrayscale makes more than 8 colour steps",
    ),
    "rounding": (
        [to_float(), T.ToDtype(torch.uint8, scale=True), to_float()],
        "ToDtype converts from uint8",
    ),
    "rounding after Normalize": (
        [to_float(), normalize(), T.ToDtype(torch.uint8)],
        "ToDtype rounds to uint8 after Normalize",
    ),
    "foreign": ([T.Resize(9), Blur(), T.Resize(8), T.RandomHorizontalFlip()], *BLUR),
    "foreign that may resize": (
        [T.Resize(9), Blur(), T.RandomAffine(9, fill=3), T.CenterCrop(9)],
        *BLUR,
        "CenterCrop has fill 0 after 3",
    ),
}

# Only with exact=True are there two passes.
EXACT: dict[str, tuple[list[Any], str]] = {
    "fill after colour": (
        [T.ColorJitter(0.3), T.RandomHorizontalFlip(), T.RandomRotation(9)],
        "RandomRotation can show its fill after a change of colours",
    ),
    "clip of a turned image": (
        [T.RandomRotation(9), T.RandomHorizontalFlip(), T.RandomAffine(9)],
        "RandomAffine could show again what RandomHorizontalFlip cut off",
    ),
    "policy": (
        [T.RandAugment(2, interpolation="bilinear", operations="linear")],
        "RandAugment.operation can show its fill after a change of colours",
    ),
}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", [*ONE_PASS, *SPLITS, *EXACT, "foreign first"])
def test_passes(name: str, exact: bool) -> None:
    reasons: Any = [""]
    if name in ONE_PASS:
        chain = ONE_PASS[name]
    elif name == "foreign first":
        chain, reasons = [Blur(), T.Resize(8)], [*BLUR]
    else:
        chain, *more = SPLITS[name] if name in SPLITS else EXACT[name]
        reasons += more if exact or name in SPLITS else []
    composed = T.Compose(chain, exact=exact)
    assert [part.reason for part in composed.passes] == reasons
    parts = [t for part in composed.passes for t in part.transforms]
    assert parts == composed.transforms
    firsts = [composed.transforms[part.first] for part in composed.passes]
    assert firsts == [part.transforms[0] for part in composed.passes]


def test_compose_within_compose_is_one_chain() -> None:
    inner = T.Compose([T.RandomHorizontalFlip(), T.RandomRotation(3)])
    outer = T.Compose([T.Resize(8), inner, to_float()])
    assert [type(t).__name__ for t in outer.transforms] == [
        *("Resize", "RandomHorizontalFlip", "RandomRotation", "ToDtype")
    ]
    assert len(outer.passes) == 1


def test_print_shows_the_passes_and_why_they_begin() -> None:
    chain = T.Compose([T.Resize(8), T.RandomErasing(), T.RandomVerticalFlip(0.25), Blur()], seed=3)
    lines = repr(chain).splitlines()
    assert lines[0] == "Compose(seed=3"
    assert lines[1] == "  pass 1 (one pass)"
    assert lines[2].startswith("    Resize(size=8, interpolation='bilinear', antialias=True")
    assert lines[3].startswith("    RandomErasing(p=0.5, ")
    assert lines[4] == "  pass 2 (one pass): RandomVerticalFlip moves the erased rectangle"
    assert lines[5] == "    RandomVerticalFlip(p=0.25)"
    assert lines[6] == "  pass 3 (as it is): Blur is not one of visops"
    assert lines[-1] == ")"


def moved(plan: Plan, points: np.ndarray) -> np.ndarray:
    """Map points [N, 2] of the source to the canvas, [B, N, 2]."""
    homogeneous = np.concatenate((points, np.ones((len(points), 1))), axis=1)
    out = homogeneous @ plan.matrices.transpose(0, 2, 1)
    return out[..., :2] / out[..., 2:]


GEOMETRY: dict[str, Any] = {
    "resized crop": lambda: T.RandomResizedCrop((40, 60)),
    "resize": lambda: T.Resize(33),
    "centre crop": lambda: T.CenterCrop((50, 200)),
    "crop": lambda: T.RandomCrop((20, 30), padding=3, pad_if_needed=True),
    "pad": lambda: T.Pad((1, 2, 3, 4)),
    "flip": lambda: T.RandomHorizontalFlip(),
    "vertical flip": lambda: T.RandomVerticalFlip(),
    "affine": lambda: T.RandomAffine(30, (0.2, 0.3), (0.5, 2.0), (-20, 20, -9, 30), center=(3, 9)),
    "rotation": lambda: T.RandomRotation(180, expand=True),
    "perspective": lambda: T.RandomPerspective(0.8, 0.7),
    "policy": lambda: T.RandAugment(2, interpolation="bilinear", operations="linear"),
}


@pytest.mark.parametrize("first", GEOMETRY)
@pytest.mark.parametrize("second", GEOMETRY)
def test_plan_composes_its_transforms(first: str, second: str) -> None:
    one, two = GEOMETRY[first](), GEOMETRY[second]()
    batch, start = 6, Canvas(90.0, 120.0)
    points = np.random.default_rng(1).uniform(0, 90, (20, 2))
    before = drawn(one, batch, 90, 120)
    plan, alone = Plan(start, batch), Plan(start, batch)
    for p in (plan, alone):
        one.extend(p, before)
    uniforms = np.random.default_rng(2).random((batch, two.draws))
    after = two.make_params(uniforms, plan.canvas)
    two.extend(plan, after)
    following = Plan(alone.canvas, batch)
    two.extend(following, after)
    expected = np.stack([moved(following, half)[i] for i, half in enumerate(moved(alone, points))])
    np.testing.assert_allclose(moved(plan, points), expected, rtol=1e-9, atol=1e-7)
    assert (plan.sizes == following.sizes).all()


def window_of(plan: Plan) -> list[float]:
    assert plan.window is not None
    (window,) = plan.window.tolist()
    return window  # type: ignore[no-any-return]


def test_window_is_what_crops_leave() -> None:
    plan = Plan(Canvas(80.0, 180.0), 1, exact=True)
    T.Pad(10).extend(plan, {})
    T.RandomHorizontalFlip().extend(plan, {"apply": False})
    T.RandomVerticalFlip().extend(plan, {"apply": True})
    assert plan.window is None
    plan = Plan(Canvas(100.0, 200.0), 1, exact=True)
    T.CenterCrop((50, 100)).extend(plan, {"top": 25.0, "left": 50.0})
    assert window_of(plan) == [50, 25, 150, 75]
    T.Resize((100, 300)).extend(plan, {"height": 100.0, "width": 300.0})
    T.RandomHorizontalFlip().extend(plan, {"apply": True})
    T.Pad(10).extend(plan, {})
    assert window_of(plan) == [50, 25, 150, 75]
    # The left 30 columns, padded and mirrored: the image's right 20, enlarged threefold.
    T.RandomCrop((200, 30)).extend(plan, {"top": 0.0, "left": 0.0})
    assert window_of(plan) == pytest.approx([150 - 20 / 3, 25, 150, 75], abs=1e-4)
    T.RandomRotation(9).extend(plan, {"angle": 9.0})
    T.CenterCrop(3).extend(plan, {"top": 5.0, "left": 5.0})
    assert window_of(plan) == pytest.approx([150 - 20 / 3, 25, 150, 75], abs=1e-4)


def test_window_of_a_crop_holds_its_columns_exactly() -> None:
    # 117.00000000000001 would let in another column.
    for width in range(1, 200):
        plan = Plan(Canvas(300.0, 300.0), 1, exact=True)
        params = {"top": 3.0, "left": 17.0, "height": float(width), "width": float(width)}
        T.RandomResizedCrop(224).extend(plan, params)
        assert window_of(plan) == [17, 3, 17 + width, 3 + width]


def test_there_is_no_window_unless_exact() -> None:
    plan = Plan(Canvas(100.0, 200.0), 1)
    T.CenterCrop((50, 100)).extend(plan, {"top": 25.0, "left": 50.0})
    assert plan.window is None


def test_normalization_and_conversions_fold() -> None:
    plan = Plan(Canvas(4.0, 4.0), 1, torch.uint8)
    plan.erase([0.0, 0.0, 1.0, 1.0], [51.0])
    plan.convert(torch.float32, scale=True)
    assert plan.erase_value == pytest.approx([0.2])
    plan.normalize([0.1], [0.5])
    plan.normalize([0.1, 0.2, 0.3], [2.0])
    assert plan.erase_value == pytest.approx([0.05, 0.0, -0.05])
    values = np.array([0.2, 0.7])
    for channel, mean in enumerate((0.1, 0.2, 0.3)):
        expected = ((values - 0.1) / 0.5 - mean) / 2.0
        folded = (values - plan.mean[channel]) / plan.std[channel]
        np.testing.assert_allclose(folded, expected)


def test_unscaled_conversion_keeps_the_numbers() -> None:
    plan = Plan(Canvas(4.0, 4.0), 1, torch.uint8)
    plan.convert(torch.float32, scale=False)
    plan.normalize([127.5], [10.0])
    # In the operator's values, white is 1.
    assert (1.0 - plan.mean[0]) / plan.std[0] == pytest.approx((255.0 - 127.5) / 10.0)
    back = Plan(Canvas(4.0, 4.0), 1, torch.float32)
    back.convert(torch.uint8, scale=False)
    assert (7.0 - back.mean[0]) / back.std[0] * 255.0 == pytest.approx(7.0)


def test_passes_do_not_depend_on_images() -> None:
    assert [p.reason for p in split_passes([T.CenterCrop(3), T.RandomRotation(4)], False)] == [""]
