"""A chain's answer depends on the sample and its draw alone, whatever the chain saw before."""

import collections
import functools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from visops import transforms

tv = pytest.importorskip("torchvision.tv_tensors")

SIZE = (4, 8)
IMAGE = torch.arange(96, dtype=torch.uint8).reshape(3, *SIZE)


def boxes(count: int = 1) -> Any:
    rows = torch.tensor([[0.0, 0, 2, 3]] * count).reshape(count, 4)
    return tv.BoundingBoxes(rows, format="XYXY", canvas_size=SIZE)


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


class Photos(Dataset[Any]):
    """Every fourth sample has no targets."""

    def __init__(self) -> None:
        self.chain = transforms.Compose([transforms.RandomHorizontalFlip(1.0)])

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Any:
        return self.chain(full() if index % 4 else {"image": IMAGE, "targets": []})["targets"]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_a_loader_moves_all_boxes(workers: int) -> None:
    context = "fork" if workers else None
    loader = DataLoader(
        Photos(), None, num_workers=workers, multiprocessing_context=context, shuffle=False
    )
    found = [[b.tolist() for b in targets] for targets in loader]
    assert found == [[[[6.0, 0, 8, 3]]] if index % 4 else [] for index in range(24)]


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
    lambda: np.arange(32).reshape(SIZE),
    lambda: torch.arange(32).reshape(SIZE),
    lambda: torch.zeros(0),
    lambda: boxes(),
    lambda: boxes(2),
    lambda: tv.Mask(torch.arange(32).reshape(SIZE)),
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


def chain_of(policy: str) -> transforms.Compose:
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
