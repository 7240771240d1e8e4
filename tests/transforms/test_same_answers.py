"""The same answer by several ways, drawn at random: passes, clips, outlines, resumed loaders."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from visops import masks_to_rle, transforms

T: Any = transforms  # arguments of any type

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
