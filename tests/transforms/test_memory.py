"""A chain's answer depends on the sample and its draw alone; batches, and empty ones."""

import collections
import functools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from bad_input import check
from hypothesis import given
from threads import torch_threads
from torch import Tensor
from visops import _native, transforms
from visops.transforms.chain.execute import run_native as run

from transforms.chains import CHAINS
from transforms.loader.photos import FILES
from transforms.samples import SIZE, assert_same, mixed, numbers, typed_boxes, values_first

tv = pytest.importorskip("torchvision.tv_tensors")
TINY = (4, 8)
IMAGE = torch.arange(96, dtype=torch.uint8).reshape(3, *TINY)


def boxes(count: int = 1) -> Any:
    rows = torch.tensor([[0.0, 0, 2, 3]] * count).reshape(count, 4)
    return tv.BoundingBoxes(rows, format="XYXY", canvas_size=TINY)


def full() -> dict[str, Any]:
    return {"image": IMAGE, "targets": [boxes()]}


@pytest.mark.parametrize(
    "empty", [[], (), {}, None, 3, "", collections.deque(), torch.zeros(0)], ids=repr
)
def test_an_empty_sample_is_forgotten(empty: Any) -> None:
    flip = transforms.Compose([transforms.RandomHorizontalFlip(1.0)])
    for _ in range(3):
        assert flip(full())["targets"][0].tolist() == [[6, 0, 8, 3]]
        assert flip({"image": IMAGE, "targets": empty})["targets"] is not None or empty is None


def test_a_refusal_is_not_forgotten() -> None:
    flip = transforms.Compose([transforms.RandomHorizontalFlip(1.0)])
    for table in ([], [1, 2], [[1, 2], [3, 4]], [], [[1, 2], [3, 4]]):
        sample = {"image": IMAGE, "rows": table}
        if table and isinstance(table[0], list):
            with pytest.raises(TypeError, match="may have to move"):
                flip(sample)
        else:
            assert flip(sample)["rows"] == table


# Values of every kind that a sample may hold under any name, movable and not.
VALUES: list[Callable[[], Any]] = [
    lambda: None,
    lambda: 3,
    lambda: "cat",
    list,
    lambda: [1, 2],
    lambda: ("a", "b"),
    lambda: [[1.0, 2.0], [3.0, 4.0]],
    lambda: [boxes()],
    lambda: [],
    lambda: {},
    lambda: {"boxes": torch.tensor([[0.0, 0, 2, 3]]), "labels": [4]},
    lambda: [{"boxes": torch.tensor([[0.0, 0, 2, 3]])}],
    lambda: collections.deque([1, 2]),
    lambda: collections.deque([boxes()]),
    lambda: torch.zeros(2),
    lambda: torch.zeros(1, 5),
    lambda: np.zeros((3, 5)),
    lambda: np.arange(32).reshape(TINY),
    lambda: torch.arange(32).reshape(TINY),
    lambda: torch.zeros(0),
    lambda: boxes(),
    lambda: boxes(2),
    lambda: tv.Mask(torch.arange(32).reshape(TINY)),
    lambda: torch.tensor([[0.0, 0, 2, 3]]),
    lambda: torch.tensor([[0.0, 0, 2, 3], [1.0, 1, 2, 2]]),
    lambda: np.array([[0.0, 0, 2, 3]]),
    lambda: [[0, 0, 2, 3]],
    lambda: [[[0.0, 0, 3, 0, 3, 3]]],
]

NAMES = ("boxes", "labels", "masks", "mask", "keypoints", "segmentation", "bbox", "area", "x", "y")

ENTRIES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(range(len(VALUES)))), max_size=4
)

FORMS = st.sampled_from(["dict", "pair", "tuple"])
SAMPLES = st.tuples(FORMS, ENTRIES)
POLICIES = st.sampled_from(["keep", "clamp", "sanitize"])


def sample_of(form: str, entries: list[tuple[str, int]]) -> Any:
    values = {name: VALUES[value]() for name, value in entries}
    if form == "dict":
        return {"image": IMAGE, **values}
    return (IMAGE, values) if form == "pair" else (IMAGE, *values.values())


def chain_of(policy: Any) -> transforms.Compose:
    steps: list[Any] = [transforms.RandomHorizontalFlip(), transforms.RandomCrop((3, 6))]
    return transforms.Compose(steps, seed=0, boxes=policy)


def call(chain: transforms.Compose, sample: Any, index: int) -> Any:
    return chain(sample_of(*sample), index=index)


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return plain(call())
    except (TypeError, ValueError) as error:
        return type(error).__name__, str(error)


def plain(value: Any) -> Any:
    """The types and numbers of a result, which compare with ==."""
    if isinstance(value, (Tensor, np.ndarray)):
        return type(value).__name__, str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value).__name__, [plain(inner) for inner in value]
    return value


@given(st.lists(SAMPLES, min_size=1, max_size=8), POLICIES)
def test_a_warm_chain_answers_as_a_fresh_one(samples: list[Any], policy: str) -> None:
    warm = chain_of(policy)
    for index, sample in enumerate(samples):
        found = outcome(functools.partial(call, warm, sample, index))
        fresh = outcome(functools.partial(call, chain_of(policy), sample, index))
        assert found == fresh


@given(st.lists(ENTRIES, min_size=1, max_size=4), POLICIES)
def test_collated_samples_answer_as_single_ones(samples: list[Any], policy: str) -> None:
    """What a batch gives for a sample is what the sample gives alone, wherever both are taken."""
    chain = chain_of(policy)
    given = [sample_of("dict", entries) for entries in samples]
    try:
        batch = chain.collate(given, index=range(len(given)))
        alone = [chain(sample, index=i) for i, sample in enumerate(given)]
    except (TypeError, ValueError):
        return
    for index, sample in enumerate(alone):
        assert torch.equal(batch["image"][index], sample["image"])
        for name in ("boxes", "masks", "mask", "keypoints"):
            if isinstance(sample.get(name), Tensor):
                assert torch.equal(
                    torch.as_tensor(batch[name][index]), sample[name].as_subclass(Tensor)
                )


_RUN_BATCH = "visops.transforms.chain.execute.run_native"


def drawn_modes() -> list[Any]:
    return [
        transforms.RandomAffine(30, interpolation=["nearest", "bilinear", "bicubic"]),
        transforms.RandomChoice([transforms.RandomInvert(1.0), transforms.RandomPosterize(2, p=1)]),
        transforms.CenterCrop(30),
    ]


def images(*sizes: tuple[int, int]) -> list[Any]:
    return [numbers(3, height, width + index) for index, (height, width) in enumerate(sizes)]


BATCHES: dict[str, Callable[[], Any]] = {
    "tensor": lambda: numbers(5, 3, *SIZE),
    "floats": lambda: numbers(5, 3, *SIZE) / 255,
    "strided": lambda: numbers(5, *SIZE, 3).permute(0, 3, 1, 2),
    "array": lambda: numbers(4, *SIZE, 3).numpy(),
    "list": lambda: images((40, 52), (40, 51), (40, 50)),
    "list of sizes": lambda: images((40, 52), (61, 33), (25, 90)),
    "videos": lambda: numbers(3, 4, 3, *SIZE),
    "targets": lambda: {
        "image": numbers(2, 3, *SIZE),
        "mask": numbers(2, *SIZE, high=5),
        "boxes": [typed_boxes(), typed_boxes()],
    },
    "two images": lambda: {"image": numbers(2, 3, *SIZE), "img": numbers(2, 3, *SIZE) / 255},
    "halves": lambda: (numbers(3, 3, *SIZE) / 255).half(),
    "wide": lambda: numbers(3, 3, *SIZE).to(torch.int16) * 100,
}


def count(batch: Any) -> int:
    return len(batch["image"] if isinstance(batch, dict) else batch)


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], tuple[Any, Any, int]]:
    """Call something in both ways; return both results, and how often C++ ran all passes."""
    ran: list[bool] = []

    def noting(*arguments: Any) -> bool:
        ran.append(run(*arguments))
        return ran[-1]

    monkeypatch.setattr(_native.Pipeline, "run", lambda *_: (False, None))

    def call(make: Callable[[], Any]) -> tuple[Any, Any, int]:
        monkeypatch.setattr(_RUN_BATCH, lambda *_: False)
        expected = make()
        ran.clear()
        monkeypatch.setattr(_RUN_BATCH, noting)
        return make(), expected, sum(ran)

    return call


@pytest.mark.matrix
@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("make", [mixed, values_first, drawn_modes])
def test_batches(name: str, make: Callable[[], list[Any]], both: Any) -> None:
    layouts: tuple[torch.memory_format, ...] = (torch.contiguous_format, torch.channels_last)
    for memory_format in layouts:
        last = [] if make is mixed else [transforms.Resize((20, 31))]
        options: dict[str, Any] = {"memory_format": memory_format, "per_frame": name != "videos"}
        chain = transforms.Compose([*make(), *last], seed=0, **options)
        batch = BATCHES[name]()
        indices = range(count(batch))
        found, expected, ran = both(lambda c=chain, b=batch, i=indices: c(b, index=i))
        assert_same(found, expected)
        assert ran == (0 if name in ("halves", "wide") else 2 if "two" in name else 1)


@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_every_kind(name: str, both: Any) -> None:
    chain = transforms.Compose([*CHAINS[name](), transforms.RandomInvert()], seed=0)
    batch = numbers(4, 3, *SIZE)
    found, expected, _ = both(lambda: chain(batch, index=range(4)))
    assert_same(found, expected)


def test_files(both: Any) -> None:
    steps = [transforms.DecodeJpeg(), transforms.RandomResizedCrop(24), transforms.RandAugment()]
    chain = transforms.Compose([*steps, transforms.ToDtype(torch.float32, scale=True)], seed=0)
    found, expected, ran = both(lambda: chain.collate(FILES[:6], index=range(6)))
    assert ran == 1
    assert_same(found, expected)


def test_passes_between_others(both: Any) -> None:
    """A transform by itself divides them into two groups."""
    steps = [*values_first()[:3], transforms.ElasticTransform(20.0, 3.0), *values_first()[3:]]
    chain, batch = transforms.Compose(steps, seed=0), numbers(3, 3, *SIZE)
    found, expected, ran = both(lambda: chain(batch, index=range(3)))
    assert ran == 2
    assert_same(found, expected)


def test_errors_are_those_of_pass_after_pass(both: Any) -> None:
    steps = [transforms.RandomPosterize(3), transforms.Normalize([0.5] * 4, [0.2] * 4)]
    chain = transforms.Compose([transforms.ToDtype(torch.float32, scale=True), *steps], seed=0)

    def outcome() -> str:
        try:
            chain(numbers(3, 3, *SIZE), index=range(3))
        except (TypeError, ValueError) as error:
            return str(error)
        return "none"

    found, expected, _ = both(outcome)
    assert found == expected != "none"
    sizes = transforms.Compose([transforms.RandomInvert(1.0), transforms.Resize(20)], seed=0)
    with pytest.raises(ValueError, match="sample 0 comes out with 20 rows"):
        sizes(images((40, 52), (61, 33)), index=range(2))


def test_more_threads_than_images(both: Any) -> None:
    """Then they share all threads."""
    chain, batch = transforms.Compose(mixed(), seed=0), numbers(2, 3, *SIZE)
    with torch_threads(4):
        found, expected, ran = both(lambda: chain(batch, index=range(2)))
    assert ran == 1
    assert_same(found, expected)


T: Any = transforms


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", CHAINS)
def test_no_samples_in_no_samples_out(name: str, exact: bool) -> None:
    chain = T.Compose(CHAINS[name](), exact=exact)
    images = torch.randint(0, 256, (2, 3, 120, 130), dtype=torch.uint8)
    expected = chain(images)
    for empty in (images[:0], np.zeros((0, 120, 130, 3), np.uint8)):
        result = chain(empty)
        assert result.shape == (0, *expected.shape[1:])
        assert result.dtype == expected.dtype


def test_empty_targets_and_labels() -> None:
    chain = T.Compose([T.RandomResizedCrop((8, 9)), T.RandomRotation(9)], seed=0)
    sample = {
        "image": torch.zeros(0, 3, 20, 30),
        "mask": torch.zeros(0, 20, 30, dtype=torch.int64),
        "boxes": torch.zeros(0, 5, 4),
        "labels": torch.zeros(0, 5, dtype=torch.int32),
        "keypoints": np.zeros((0, 7, 2), np.float32),
        "name": [],
        "classes": torch.zeros(0),
    }
    result, params = chain(sample, index=[], return_params=True)
    shapes = {key: tuple(value.shape) for key, value in result.items() if key != "name"}
    assert shapes == {
        "image": (0, 3, 8, 9),
        "mask": (0, 8, 9),
        "boxes": (0, 5, 4),
        "labels": (0, 5),
        "keypoints": (0, 7, 2),
        "keypoints_visible": (0, 7),
        "classes": (0,),
    }
    assert result["mask"].dtype == torch.int64
    assert result["keypoints"].dtype == np.float32
    assert params.size.shape == (0, 2)
    assert {len(array) for step in params.steps for array in step.values()} == {0}
    dry = chain.make_params(sample)
    assert [sorted(step) for step in dry.steps] == [sorted(step) for step in params.steps]
    lists = {"image": torch.zeros(0, 3, 20, 30), "boxes": [], "labels": []}
    result = T.Compose(chain.transforms, boxes="sanitize")(lists)
    assert (result["image"].shape, result["boxes"]) == ((0, 3, 8, 9), [])


def test_empty_batches_of_tv_tensors_and_other_transforms() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    chain = T.Compose([T.Pad(1), v2.RandomHorizontalFlip(1.0), v2.Resize((5, 6))])
    points = tv.KeyPoints(torch.zeros(0, 2, 2), canvas_size=(20, 30))
    video = tv.Video(torch.zeros(0, 4, 3, 20, 30))
    result = chain({"image": video, "points": points})
    assert result["image"].shape == (0, 4, 3, 5, 6)
    assert type(result["image"]) is tv.Video
    assert result["points"].shape == (0, 2, 2)
    assert tuple(result["points"].canvas_size) == (5, 6)


def test_empty_batches_draw_nothing() -> None:
    state = torch.get_rng_state()
    T.Compose([T.RandomRotation(9)])(torch.zeros(0, 3, 10, 10))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("transform", [T.RandomHorizontalFlip(1.0), T.Resize(4), T.Resize((4, 4))])
def test_images_without_pixels_are_refused(transform: Any) -> None:
    for shape, text in (((3, 0, 10), "0 rows and 10"), ((3, 10, 0), "10 rows and 0")):
        message = f"transforms: the sample has {text} columns, must have at least one of each"
        check(ValueError, message, lambda shape=shape: transform(torch.zeros(shape)))  # type: ignore[misc]
    message = "transforms: sample['image'][1] has 0 rows and 5 columns, must have at least one"
    images = [torch.zeros(3, 4, 5), torch.zeros(3, 0, 5)]
    check(ValueError, message, lambda: transform({"image": images}))
