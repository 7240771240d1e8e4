"""Fused chains against their transforms one by one; the same answer by several ways."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from visops import masks_to_rle, transforms

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
    "padding beside a cut": [
        T.RandomCrop(40, padding=70, padding_mode="reflect"),
        T.RandomHorizontalFlip(),
        T.RandomCrop(30, padding=9, padding_mode="reflect"),
        T.RandomCrop(20),
    ],
    "padding that turns round": [
        T.RandomCrop((90, 99), padding=40, padding_mode="circular"),
        T.RandomResizedCrop(50, antialias=False),
        T.Pad(9, padding_mode="symmetric"),
        T.Resize((40, 35)),
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


tv = pytest.importorskip("torchvision.tv_tensors")
HEIGHT, WIDTH = 40, 60

IMAGE = torch.randint(
    0, 256, (3, HEIGHT, WIDTH), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)

drawn = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**31)

# What ends a pass and moves nothing.
PASSES = st.sampled_from(
    [
        T.GaussianBlur(3),
        T.RandomEqualize(p=0.5),
        T.GaussianNoise(),
        T.RandomApply([T.RandomInvert()]),
    ]
)

EXACT_MOVES = st.sampled_from(
    [T.RandomHorizontalFlip(1.0), T.RandomVerticalFlip(1.0), T.RandomRotation((180, 180))]
)


def rotated(rng: np.random.Generator, form: str) -> Any:
    """Boxes of which many reach beyond the image."""
    rows = rng.uniform((-5, -5, 4, 4, -180), (WIDTH + 5, HEIGHT + 5, 30, 20, 180), (12, 5))
    boxes = tv.BoundingBoxes(torch.from_numpy(rows), format="CXCYWHR", canvas_size=(HEIGHT, WIDTH))
    return T.ConvertBoundingBoxFormat(form)(boxes)


def annotations(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Objects with polygons, crowds, and objects with a box alone."""
    found = []
    for index in range(6):
        (x1, x2), (y1, y2) = np.sort(rng.integers(0, WIDTH, 2)), np.sort(rng.integers(0, HEIGHT, 2))
        x2, y2 = min(x2 + 3, WIDTH), min(y2 + 3, HEIGHT)
        own: dict[str, Any] = {
            "bbox": [x1, y1, x2 - x1, y2 - y1],
            "category_id": index,
            "iscrowd": 0,
        }
        own["area"] = float((x2 - x1) * (y2 - y1))
        if index % 3 == 0:
            own["segmentation"] = [[x1, y1, x2, y1, x2, y2, x1, y2]]
        elif index % 3 == 1:
            mask = torch.zeros(HEIGHT, WIDTH, dtype=torch.bool)
            mask[y1:y2, x1:x2] = True
            own |= {"segmentation": masks_to_rle(mask), "iscrowd": 1}
        else:
            own["segmentation"] = []
        found.append({k: [int(n) for n in v] if k == "bbox" else v for k, v in own.items()})
    return found


@drawn
@given(
    seeds,
    st.lists(PASSES, max_size=3),
    EXACT_MOVES,
    st.sampled_from(["CXCYWHR", "XYWHR", "XYXYXYXY"]),
)
def test_passes_and_flips_leave_shares_alone(
    seed: int, passes: list[Any], flip: Any, form: str
) -> None:
    """What the canvas cuts off is cut off once: by no flip, by one, and between any passes."""
    boxes = rotated(np.random.default_rng(seed), form)
    sample = {"image": IMAGE, "boxes": boxes, "area": torch.ones(12), "labels": list(range(12))}
    plain = T.Compose([T.Identity()], boxes="sanitize", min_visibility=0.5)(sample)
    for steps in ([flip], [flip, *passes, flip], [*passes, flip, *passes]):
        found = T.Compose(steps, boxes="sanitize", min_visibility=0.5, seed=0)(sample, index=seed)
        assert found["labels"] == plain["labels"]
        torch.testing.assert_close(found["area"], plain["area"], rtol=0, atol=1e-5)


@drawn
@given(
    seeds,
    st.lists(PASSES, max_size=2),
    st.sampled_from(["boxes", "polygons", "masks"]),
    st.booleans(),
)
def test_objects_of_all_outlines(seed: int, passes: list[Any], source: str, batched: bool) -> None:
    """Objects that fill their boxes: every source gives one answer."""
    objects = annotations(np.random.default_rng(seed))
    steps = [T.RandomHorizontalFlip(), *passes, T.RandomCrop((30, 40)), *passes]
    options = {"boxes": "sanitize", "min_visibility": 0.4, "seed": seed}
    expected = T.Compose(steps, **options)((IMAGE, objects), index=1)[1]
    chain = T.Compose(steps, boxes_from=source, **options)
    if batched:
        found = chain((torch.stack([IMAGE] * 2), [objects, objects[:2]]), index=[1, 2])[1][0]
    else:
        found = chain((IMAGE, objects), index=1)[1]
    assert [own["category_id"] for own in found] == [own["category_id"] for own in expected]
    for own, other in zip(found, expected, strict=True):
        assert own["bbox"] == pytest.approx(other["bbox"])
        assert own["area"] == pytest.approx(other["area"])


@drawn
@given(
    seeds,
    st.lists(PASSES, max_size=2),
    st.integers(1, 5),
    st.sampled_from(["list", "tensor", "array"]),
)
def test_clips_in_every_form(seed: int, passes: list[Any], frames: int, form: str) -> None:
    """A list of frames, a tensor and a video are one clip, alone, in containers and in batches."""
    steps = [T.RandomResizedCrop(16), *passes, T.RandomHorizontalFlip()]
    chain = T.Compose(steps, per_frame=False, seed=seed)
    clip = torch.stack([IMAGE] * frames)
    expected = chain(tv.Video(clip), index=3).as_subclass(torch.Tensor)
    values: dict[str, Any] = {
        "list": list(clip),
        "tensor": clip,
        "array": list(clip.movedim(1, -1).numpy()),
    }
    value = values[form]
    samples = [value, (value, 1), {"image": value}]
    for sample in samples:
        found: Any = chain(sample, index=3)
        found = found["image"] if isinstance(found, dict) else found
        found = found[0] if isinstance(found, tuple) else found
        assert torch.equal(torch.stack(list(found)), expected)
    batch, _ = chain.collate([(value, 0), (value, 1)], index=[3, 4])
    assert torch.equal(batch[0], expected)


class Order:
    """A sampler with a generator of its own that repeats samples."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.generator = count, torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Any:
        return iter(torch.randint(0, 9, (self.count,), generator=self.generator).tolist())


@settings(max_examples=8, deadline=None)
@given(
    seeds,
    st.integers(5, 12),
    st.integers(1, 3),
    st.integers(0, 3),
    st.sampled_from(["shuffle", "order", "sampler"]),
)
def test_a_resumed_loader_goes_on_as_an_undisturbed_one(
    seed: int, count: int, batch_size: int, stop: int, order: str
) -> None:
    samples = [(IMAGE, index) for index in range(9)]

    def made() -> Any:
        options: dict[str, Any] = {"shuffle": order == "shuffle"}
        if order == "sampler":
            options = {"sampler": Order(count, seed)}
        chain = T.Compose([T.RandomResizedCrop(8), T.GaussianNoise()], seed=seed)
        return T.Loader(samples, chain, batch_size, threads=2, **options)

    def epochs(loader: Any, number: int) -> list[Any]:
        return [[(a.sum().item(), b.tolist()) for a, b in loader] for _ in range(number)]

    whole = epochs(made(), 3)
    loader = made()
    batches = iter(loader)
    begun = [next(batches) for _ in range(min(stop, len(loader)))]
    state = loader.state_dict()
    again = made()
    again.load_state_dict(state)
    rest = epochs(again, 3)
    first = [(a.sum().item(), b.tolist()) for a, b in begun]
    if len(begun) == len(loader):  # that epoch was over
        assert rest[:2] == whole[1:]
    else:
        assert first + rest[0] == whole[0]
        assert rest[1:] == whole[1:]
    assert whole[0] != whole[1]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("steps", ["pad, crop", "crop", "pad, pad"])
@pytest.mark.parametrize(
    ("mode", "numpy_mode"),
    [("edge", "edge"), ("reflect", "reflect"), ("symmetric", "symmetric"), ("circular", "wrap")],
)
def test_padding_is_of_the_whole_image(mode: Any, numpy_mode: Any, steps: str, exact: bool) -> None:
    """Also where a crop holds little of it, or nothing, and where the result is padded again."""
    image = torch.rand((2, 20, 23), generator=torch.manual_seed(0))

    def padded(values: np.ndarray, by: int) -> np.ndarray:
        return np.pad(values, ((0, 0), (by, by), (by, by)), numpy_mode)

    first, around = T.Pad(12, padding_mode=mode), padded(image.numpy(), 12)
    if steps == "pad, pad":
        chain = T.Compose([first, T.Pad(5, padding_mode=mode)], exact=exact)
        assert np.array_equal(chain(image).numpy(), padded(around, 5))
        return
    crop = T.RandomCrop(8, padding=12, padding_mode=mode)
    chain = T.Compose([crop] if steps == "crop" else [first, T.RandomCrop(8)], seed=0, exact=exact)
    for index in range(60):
        found, params = chain(image, index=index, return_params=True)
        top, left = (int(params.steps[-1][name][0]) for name in ("top", "left"))
        if steps == "crop":  # of which params are those in the image
            top, left = top + 12, left + 12
        assert np.array_equal(found.numpy(), around[:, top : top + 8, left : left + 8])
