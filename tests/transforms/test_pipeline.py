"""Calls that C++ runs as a whole: the results of torch's operators, and what does not go there."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision import tv_tensors
from visops import transforms

from transforms.chains import CHAINS, classification
from transforms.samples import (
    SAMPLES,
    SIZE,
    assert_same,
    detection,
    image,
    in_one_call,
    index_for,
    mixed,
    noted,
    numbers,
    points,
    still,
    typed_boxes,
    values_first,
)


def values_alone() -> list[Any]:
    return [transforms.RandomSolarize(100, 0.5), transforms.MedianBlur((3, 3), 0.5)]


def grey() -> list[Any]:
    return [
        transforms.RandomHorizontalFlip(),
        transforms.Grayscale(),
        transforms.RandomInvert(0.5),
        transforms.ToDtype(torch.float32, scale=True),
        transforms.Normalize([0.5], [0.3]),
    ]


def grey_last() -> list[Any]:
    return [transforms.RandomSolarize(100, 0.5), transforms.Grayscale()]


def three_greys() -> list[Any]:
    return [transforms.Grayscale(3), transforms.ToDtype(torch.float32, scale=True)]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"keypoint_convention": "half_pixel", "mask_fill": 3},
    {"exact": True, "boxes": "clamp"},
]


@pytest.mark.matrix
@pytest.mark.parametrize("name", SAMPLES)
def test_results_are_those_of_passes(name: str) -> None:
    """Draws of a chain that shows a fill, of one that doesn't, of none that moves a pixel, ..."""
    makers = [detection, still, mixed, values_alone, values_first, grey, grey_last, three_greys]
    for make in (*makers, *([] if "grey" in name else [classification])):
        for options in OPTIONS:
            chain = transforms.Compose(make(), seed=0, **options)
            sample = SAMPLES[name]()
            chain(sample)  # the first call of a chain finds out what no draw changes
            for number in range(6):
                index = index_for(name, number)
                assert_same(*in_one_call(chain, sample, index=index))


def test_images_and_batches_of_one_in_turn() -> None:
    """A chain that has seen the one takes the other as well."""
    chain = transforms.Compose(detection(), seed=0)
    for name in ("tensor", "array", "typed"):
        one = SAMPLES[name]()
        chain(one, index=0)
        for sample in (
            one,
            tv_tensors.wrap(one[None], like=one) if name == "typed" else one[None],
            one,
        ):
            assert_same(*in_one_call(chain, sample, index=1))


@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_every_kind(name: str) -> None:
    chain = transforms.Compose(CHAINS[name](), seed=0)
    sample = {"image": image(), "mask": numbers(*SIZE), "boxes": typed_boxes()}
    for index in range(10):
        with noted(direct=False):
            expected = chain(sample, index=index)
        assert_same(chain(sample, index=index), expected)


@pytest.mark.parametrize("name", ["tensor", "all", "labelled batch", "list", "pil"])
@pytest.mark.parametrize("make", [detection, values_first, classification, grey])
def test_recorded_parameters(name: str, make: Callable[[], list[Any]]) -> None:
    chain = transforms.Compose(make(), seed=0)
    sample = SAMPLES[name]()
    index = index_for(name, 3)
    (found, params), (expected, wanted) = in_one_call(
        chain, sample, index=index, return_params=True
    )
    assert_same(found, expected)
    assert params.names == wanted.names
    assert params.size.tolist() == wanted.size.tolist()
    for own, other in zip(params.steps, wanted.steps, strict=True):
        assert own.keys() == other.keys()
        for key, values in own.items():
            assert values.dtype == other[key].dtype
            assert values.tolist() == other[key].tolist()
    assert_same(chain(sample, params=pickle.loads(pickle.dumps(params))), found)


@pytest.mark.matrix
@pytest.mark.parametrize("saturates", [False, True])
def test_exact_colours(saturates: bool) -> None:
    """Grey means of all pixels, with steps that clamp before, behind and between."""
    steps = [
        transforms.Resize((33, 47), interpolation="bicubic" if saturates else "bilinear"),
        transforms.ColorJitter(0.8, 0.8, 0.8, 0.3),
        transforms.RandomHorizontalFlip(),
        transforms.ColorJitter(contrast=0.9),
        transforms.ToDtype(torch.float32, scale=True),
    ]
    chain = transforms.Compose(steps, seed=0, exact=True)
    samples = (image(), numbers(3, 3, *SIZE), image().double() / 255, numbers(*SIZE, 3).numpy())
    for sample in (*samples, image(1)):
        for index in range(4):
            many = getattr(sample, "ndim", 3) == 4
            indices = range(index, index + 3) if many else index
            assert_same(*in_one_call(chain, sample, index=indices))


@pytest.mark.parametrize("policy", ["keep", "clamp", "sanitize"])
@pytest.mark.parametrize("form", ["plain", "XYXY", "XYWH", "CXCYWH"])
def test_formats_and_clipping(form: str, policy: Any) -> None:
    """Boxes of every format that reach beyond the image, before and behind each pass."""
    boxes = typed_boxes() if form == "plain" else typed_boxes(form)
    value: Tensor = boxes.as_subclass(Tensor) if form == "plain" else boxes
    for make in (detection, still, mixed):
        chain = transforms.Compose(make(), seed=0, boxes=policy)
        for dtype in (torch.float32, torch.float64):
            sample = {"image": image(), "boxes": value.to(dtype), "keypoints": points()}
            for index in range(6):
                assert_same(*in_one_call(chain, sample, index=index))


@pytest.mark.parametrize("name", ["tensor", "grey", "batch", "list", "typed batch", "all"])
def test_channels_last(name: str) -> None:
    for make, whole in ((detection, True), (grey, True), (mixed, False)):
        options: dict[str, Any] = {"seed": 0, "memory_format": torch.channels_last}
        if name == "grey" and make is grey:
            continue  # what has one channel has both formats
        chain = transforms.Compose(make(), **options)
        assert ("in Python: memory_format is channels_last" in repr(chain)) != whole
        sample, index = SAMPLES[name](), index_for(name, 2)
        with noted(direct=False):
            expected = chain(sample, index=index)
        with noted() as went:
            found = chain(sample, index=index)
        assert went == [True] * whole
        assert_same(found, expected)


def test_the_sample_stays_as_it_is() -> None:
    chain, sample = transforms.Compose(detection(), seed=0), SAMPLES["all"]()
    before = copy.deepcopy(sample)
    results = [chain(sample, index=0) for _ in range(2)]
    assert_same(sample, before)
    assert results[1] is not sample
    assert results[1]["id"] is sample["id"]


def unusual() -> list[tuple[str, Any]]:
    """Samples with the structure of usual ones whose values are not for C++, or are wrong."""
    full = SAMPLES["all"]
    tall = numbers(3, 50, 52)
    nan = typed_boxes().as_subclass(Tensor).clone()
    nan[1, 2] = float("nan")
    return [
        ("tensor", image()[None, None]),
        ("typed", tv_tensors.Image(image()[None, None])),
        ("list of one", [torch.zeros(5, 5)]),
        ("list of one", [image().unsqueeze(0)]),
        ("list of one", [3]),
        ("tensor", image().to(torch.int16)),
        ("tensor", image().float().requires_grad_()),
        ("tensor", torch.zeros(3, 0, 5, dtype=torch.uint8)),
        ("tensor", torch.zeros(5, 5, dtype=torch.uint8)),
        ("pair of arrays", (torch.tensor(3), image(), np.zeros((1, 4)))),
        ("mask", {"image": tall, "mask": numbers(*SIZE)}),
        ("mask", {"image": image(), "mask": numbers(*SIZE).long()}),
        ("mask", {"image": image(), "mask": numbers(*SIZE).float().requires_grad_()}),
        ("boxes", {"image": image(), "boxes": nan}),
        ("boxes", {"image": image(), "boxes": torch.tensor([[5, 5, 9, 9]])}),
        ("boxes", {"image": image(), "boxes": torch.tensor([[5.0, 5, 4, 9]])}),
        ("boxes", {"image": image(), "boxes": torch.zeros(2, 5)}),
        ("points", {"image": image(), "keypoints": torch.zeros(3, 4)}),
        ("points", {"image": image(), "keypoints": torch.zeros(4, 3).T[:, :2]}),
        ("all", full() | {"image": tall}),
        ("all", full() | {"labels": ["a", "b"]}),
        ("all", full() | {"masks": numbers(2, *SIZE)}),
        ("all", full() | {"keypoints": numbers(2, 2, 2, dtype=torch.float32)}),
        ("all", full() | {"kp": tv_tensors.KeyPoints(points(), canvas_size=(9, 9))}),
    ]


@pytest.mark.parametrize("position", range(len(unusual())))
def test_unusual_samples_of_a_known_structure(position: int) -> None:
    name, sample = unusual()[position]
    chain = transforms.Compose(detection(), seed=0)
    for _ in range(2):
        chain(SAMPLES[name](), index=0)

    def outcome() -> Any:
        try:
            return chain(sample, index=3)
        except (TypeError, ValueError) as error:
            return str(error)

    with noted(direct=False):
        expected = outcome()
    with noted() as went:
        found = outcome()
    assert went in ([False], [])  # splitting may be what refuses it
    assert_same(found, expected)


STRUCTURES: list[Callable[[], Any]] = [
    lambda: {"image": image().unsqueeze(0), "mask": numbers(1, *SIZE, high=5)},
    lambda: {"image": [image()], "mask": [numbers(*SIZE, high=5)]},
    lambda: {"image": [image()], "boxes": [typed_boxes()]},
    lambda: {"image": image(), "img": image()},
    lambda: {"image": image(), "boxes": [[1, 2, 3, 4]]},
    lambda: {"image": image(), "boxes": typed_boxes().numpy().astype(int)},
    lambda: {"image": image(), "boxes": typed_boxes(), "area": torch.ones(3)},
    lambda: {"image": image(), "keypoints": points(), "keypoints_visible": torch.ones(4)},
    lambda: {"image": image(), "first": typed_boxes(), "second": typed_boxes()},
    lambda: {"image": image(), "more": {"boxes": typed_boxes()}},
    lambda: {"image": image(), "polygons": [[[1.0, 2, 3, 4, 5, 6]]]},
    lambda: (image(), [typed_boxes()]),
]


@pytest.mark.parametrize("position", range(len(STRUCTURES)))
def test_other_structures(position: int) -> None:
    chain, sample = transforms.Compose(detection(), seed=0), STRUCTURES[position]()
    with noted() as went:
        results = [chain(sample, epoch=1) for _ in range(3)]
    assert went == [False] * 3
    again = transforms.Compose(detection(), seed=0)
    with noted(direct=False):
        for result in results:
            assert_same(result, again(sample, epoch=1))


@pytest.mark.parametrize(
    "options", [{"boxes": "sanitize", "min_visibility": 0.2}, {"boxes_from": "masks"}], ids=str
)
def test_other_options(options: dict[str, Any]) -> None:
    chain = transforms.Compose(detection(), seed=0, **options)
    masks = numbers(3, *SIZE, high=2)
    sample = {"image": image(), "boxes": typed_boxes(), "masks": masks}
    with noted() as went:
        results = [chain(sample, epoch=1) for _ in range(3)]
    assert not any(went)
    again = transforms.Compose(detection(), seed=0, **options)
    with noted(direct=False):
        for result in results:
            assert_same(result, again(sample, epoch=1))


def test_calls_take_the_same_numbers() -> None:
    """Whichever way a call goes, also where C++ draws and then leaves it to Python."""
    tilted = [transforms.RandomPerspective(0.5, 0.5), transforms.RandomHorizontalFlip()]
    samples = [image(), {"image": image(), "boxes": typed_boxes()}]
    for seed in (None, 0):
        results: list[list[Any]] = []
        for direct in (True, False):
            torch.manual_seed(1)
            chain = transforms.Compose(tilted, seed=seed)
            with noted(direct) as went:
                results.append([chain(sample) for _ in range(8) for sample in samples])
            assert any(went) is direct
            assert not all(went)
        assert_same(*results)


def test_watched_calls_go_through_the_operator() -> None:
    chain = transforms.Compose([transforms.RandomHorizontalFlip()], seed=0)
    with noted() as went:
        with torch.profiler.profile() as profiler:
            chain(image())
        torch.func.vmap(lambda x: chain(x), randomness="different")(torch.zeros(2, 3, 8, 8))
        assert not any(went)
        chain(numbers(3, 1200, 1200))
        assert went[-1]
    assert any(event.name == "visops::augment" for event in profiler.events())


def test_keys_may_change() -> None:
    keys = {"other": ["map"]}
    chain = transforms.Compose([transforms.RandomHorizontalFlip(1.0)], keys=keys)
    sample = {"image": image(), "map": numbers(*SIZE)}
    for _ in range(3):
        assert torch.equal(chain(sample)["map"], sample["map"])
    keys["mask"] = keys.pop("other")
    for _ in range(2):
        assert torch.equal(chain(sample)["map"], sample["map"].flip(-1))


def test_copies_see_samples_of_their_own() -> None:
    class Local(dict[str, Any]):
        """A type that can't be pickled."""

    chain = transforms.Compose(detection(), seed=0)
    sample = {"image": image(), "rest": Local()}
    expected = [chain(sample, index=0) for _ in range(2)][1]
    for twin in (copy.deepcopy(chain), pickle.loads(pickle.dumps(chain))):
        for _ in range(2):
            assert_same(twin(sample, index=0)["image"], expected["image"])


def test_targets_that_several_passes_move() -> None:
    """They are cut off as each pass ends, and not rounded before the last."""
    steps = [
        transforms.RandomAffine(30, (0.2, 0.2), (0.6, 1.4)),
        transforms.RandomInvert(0.5),
        transforms.RandomHorizontalFlip(0.5),
        transforms.RandomSolarize(100, 0.5),
        transforms.Resize((20, 31)),
    ]
    policy = [
        transforms.RandomCrop((30, 40)),
        transforms.RandAugment(3),
        transforms.RandomHorizontalFlip(),
    ]
    for chain in (transforms.Compose(steps, seed=0), transforms.Compose(policy, seed=0)):
        for name in SAMPLES:
            if "grey" in name and chain.transforms[0] is policy[0]:
                continue
            sample = SAMPLES[name]()
            for number in range(8):
                index = index_for(name, number)
                assert_same(*in_one_call(chain, sample, index=index))


def test_values_take_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without leaves, and with the bits of `run_passes`."""
    image = torch.randint(0, 256, (3, 20, 30), dtype=torch.uint8)
    steps = [
        transforms.GaussianNoise(),
        transforms.MedianBlur((3, 3), 1.0),
        transforms.RandAugment(),
    ]
    chain = transforms.Compose(steps, seed=0)
    samples = (image, image[None], image.permute(1, 2, 0).numpy(), image / 255, (image, 7))
    with noted(direct=False):
        expected = [chain(sample, index=3) for sample in samples]

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("run_passes")

    monkeypatch.setattr("visops.transforms.compose.run_passes", refuse)
    for sample, wanted in zip(samples, expected, strict=True):
        found = chain(sample, index=3)
        if isinstance(sample, tuple):
            assert found[1] == 7
            found, wanted = found[0], wanted[0]
        assert torch.equal(found, wanted)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (lambda: torch.neg, "it is not of visops"),
        (lambda: transforms.RandomApply([torch.neg]), "it runs sample by sample"),
        (lambda: transforms.Defocus(), "it runs by torch's operators"),
    ],
)
def test_a_chain_says_why_python_runs_it(step: Any, why: str) -> None:
    chain = transforms.Compose([transforms.Resize(8), step()])
    assert f": {why}" in repr(chain).splitlines()[-2]
