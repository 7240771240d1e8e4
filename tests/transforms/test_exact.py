"""Fused chains against their transforms called one by one, in float64."""

from typing import Any

import pytest
import torch
from visops import transforms

from transforms.chains import MEAN, STD, one_by_one, photo

T: Any = transforms  # arguments of any type

# Chains that move only by whole pixels and quarter turns. Nothing is interpolated, so what is cut
# off, filled, clamped and erased must agree to within a few bits.
STILL: dict[str, list[Any]] = {
    "crop, then pad": [T.CenterCrop((60, 80)), T.Pad(20), T.RandomHorizontalFlip()],
    "crops within crops": [
        T.RandomCrop((70, 90)),
        T.RandomHorizontalFlip(),
        T.RandomCrop((50, 40)),
        T.Pad((30, 5)),
        T.RandomCrop((60, 60)),
    ],
    "turned canvas cuts": [
        T.RandomRotation((90, 90)),
        T.RandomVerticalFlip(),
        T.RandomRotation((-90, -90)),
    ],
    "shifted out and back": [
        T.RandomAffine((0, 0), translate=(0.5, 0.5)),
        T.RandomAffine((0, 0), translate=(0.5, 0.5)),
        T.RandomCrop((99, 99), padding=10),
    ],
    "reflection of a crop": [T.CenterCrop((50, 60)), T.Pad(30, padding_mode="reflect")],
    "crop of a reflection": [
        T.Pad(30, padding_mode="symmetric"),
        T.CenterCrop((120, 60)),
        T.Pad(8, padding_mode="edge"),
    ],
    "colour, then fill": [
        T.ColorJitter(brightness=(1.5, 2.0)),
        T.RandomCrop((120, 130), padding=20, pad_if_needed=True, fill=0.25),
        T.ColorJitter(saturation=(2, 3), hue=0.2),
        T.Pad(3, fill=0.5),
    ],
    "clamped after every step": [
        T.ColorJitter((0.2, 3), (0.2, 3), (0.2, 3), 0.3),
        T.RandomGrayscale(0.3),
        T.ColorJitter((0.2, 3), (0.2, 3)),
    ],
    "contrast of the image at that point": [
        T.RandomCrop(50),
        T.ColorJitter(contrast=(0.1, 0.5)),
        T.RandomVerticalFlip(),
        T.CenterCrop(30),
        T.ColorJitter(contrast=(2, 3)),
    ],
    "erased, normalized": [
        T.RandomErasing(1, value=(0.1, 0.5, 0.9)),
        T.RandomErasing(1, value=(0.1, 0.5, 0.9)),
        T.Normalize(MEAN, STD),
        T.Normalize(0.5, 2.0),
    ],
    "fill after normalization": [
        T.Normalize(MEAN, STD),
        T.Pad(4, fill=-7),
        T.RandomErasing(1, value=9),
        T.RandomHorizontalFlip(),
        T.ColorJitter(0.5),
    ],
}


def image() -> torch.Tensor:
    return photo(torch.float64)[:, 40:140, 60:180]


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", STILL)
def test_exact_chain_equals_its_transforms_in_turn(name: str, seed: int) -> None:
    chain = T.Compose(STILL[name], seed=seed, exact=True)
    fused, params = chain(image(), index=0, return_params=True)
    expected = one_by_one(chain, image(), params)
    assert fused.shape == expected.shape
    assert (fused - expected).abs().max() < 1e-9


@pytest.mark.parametrize(
    ("name", "passes", "exact_passes"),
    [("crop, then pad", 1, 1), ("turned canvas cuts", 1, 2), ("colour, then fill", 2, 3)],
)
def test_unless_exact_what_was_cut_off_shows_again(
    name: str, passes: int, exact_passes: int
) -> None:
    chain = T.Compose(STILL[name], seed=0)
    fused, params = chain(image(), index=0, return_params=True)
    assert len(chain.passes) == passes
    assert len(T.Compose(STILL[name], exact=True).passes) == exact_passes
    assert (fused - one_by_one(chain, image(), params)).abs().max() > 0.1


# Chains that interpolate once instead of several times: on a smooth image this makes little
# difference.
MOVING: dict[str, list[Any]] = {
    "resized crop, turn": [
        T.RandomResizedCrop((90, 110), scale=(0.3, 0.7)),
        T.RandomHorizontalFlip(),
        T.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10, fill=0.5),
        T.ColorJitter(0.3, 0.3, 0.3, 0.1),
        T.Normalize(MEAN, STD),
        T.RandomErasing(),
    ],
    "turns in turn": [
        T.RandomRotation(40, fill=0.4),
        T.RandomPerspective(0.3, p=1, fill=0.4),
        T.RandomAffine(30, (0.2, 0.2), fill=0.4),
    ],
    "turn, resized": [T.RandomRotation(40, expand=True, fill=0.4), T.Resize((80, 90))],
    "enlarged crop, shrunk": [
        T.RandomCrop((50, 60)),
        T.Resize((120, 100)),
        T.RandomAffine(10, scale=(0.6, 0.8), fill=0.4),
    ],
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", MOVING)
def test_interpolating_once_is_nearly_the_same(name: str, seed: int) -> None:
    smooth = torch.nn.functional.interpolate(
        photo(torch.float64)[None, :, ::40, ::40], (200, 240), mode="bicubic", align_corners=True
    )[0].clamp(0, 1)
    chain = T.Compose(MOVING[name], seed=seed, exact=True)
    fused, params = chain(smooth, index=0, return_params=True)
    expected = one_by_one(chain, smooth, params)
    assert fused.shape == expected.shape
    difference = (fused - expected).abs()
    spread = expected.max() - expected.min()
    # Only at cut edges, one or two pixels wide, may it differ by more.
    assert difference.median() < 0.002 * spread
    assert (difference > 0.03 * spread).double().mean() < 0.04


@pytest.mark.parametrize("name", MOVING)
def test_exact_keeps_the_cuts_that_fusing_would_undo(name: str) -> None:
    # White image, black fill: only what is cut off makes a difference.
    white = torch.ones(3, 100, 120, dtype=torch.float64)
    chain = [t for t in MOVING[name] if not isinstance(t, (T.ColorJitter, T.RandomErasing))]
    exact, loose = T.Compose(chain, seed=1, exact=True), T.Compose(chain, seed=1)
    wrong = []
    for index in range(4):
        fused, params = exact(white, index=index, return_params=True)
        expected = one_by_one(exact, white, params)
        edge = 3.0 / min(expected.shape[1:])
        assert ((fused - expected).abs() > 0.2).double().mean() < edge
        wrong.append(((loose(white, params=params) - expected).abs() > 0.2).double().mean())
    if name not in ("turn, resized",):
        assert max(wrong) > edge


def test_a_batch_in_which_contrasts_have_other_positions_equals_its_samples() -> None:
    """A sample whose first step is its contrast takes the mean of values beyond white as well."""
    image = torch.tensor([[[0.0, 0.6, 3.0, 3.0]]])
    jitter = T.ColorJitter(brightness=(1, 1.001), contrast=(0.5, 0.5))
    chain = T.Compose([jitter], seed=0, exact=True)
    alone = [chain(image, index=i) for i in range(12)]
    torch.testing.assert_close(
        alone[6], torch.tensor([[[0.825, 1.0, 1.0, 1.0]]]), atol=1e-3, rtol=0
    )
    assert torch.equal(chain(image.expand(12, -1, -1, -1), index=range(12)), torch.stack(alone))
    # Beyond white in images of any size, with more than one contrast.
    rng = torch.Generator().manual_seed(0)
    images = torch.rand(8, 3, 9, 11, generator=rng) * 4 - 1
    chain = T.Compose([T.ColorJitter(0.5, 0.5, 0.5), T.ColorJitter(0.5, 0.5)], seed=1, exact=True)
    alone = [chain(image, index=i) for i, image in enumerate(images)]
    assert torch.equal(chain(images, index=range(8)), torch.stack(alone))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16], ids=str)
@pytest.mark.parametrize("mode", ["bicubic", "lanczos"])
@pytest.mark.parametrize("exact", [False, True])
def test_what_integers_are_interpolated_to_saturates(
    dtype: torch.dtype, mode: str, exact: bool
) -> None:
    """As where the resized image is stored, but for its rounding: half a level."""
    white = float(torch.iinfo(dtype).max)
    noise = torch.randint(0, 2, (3, 60, 70), generator=torch.Generator().manual_seed(0))
    image = (noise * int(white)).to(dtype)
    after = [T.ToDtype(torch.float32, scale=True), T.Normalize(MEAN, STD)]
    steps: list[Any] = [T.Resize((90, 50), mode)]
    chains = [(steps, after, 0.5)]
    if exact:
        dim = T.ColorJitter(brightness=(0.5, 0.5))
        chains += [(steps, [dim, *after], 0.8)]
    for first, rest, levels in chains:
        expected = image
        for step in (*first, *rest):
            expected = T.Compose([step])(expected)
        for sample in (image, torch.stack([image, image]), [image, image]):
            found = T.Compose([*first, *rest], exact=exact)(sample)
            found = found if isinstance(sample, torch.Tensor) and sample.dim() == 3 else found[1]
            apart = (found - expected).abs() * torch.tensor(STD)[:, None, None] * white
            assert apart.max() <= levels + 0.01
    # What is floating already is not an integer any more.
    floats = [T.ToDtype(torch.float32, scale=True), T.Resize((90, 50), mode)]
    assert T.Compose(floats)(image).max() > 1.05
