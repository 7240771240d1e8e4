"""The engine of chains: whole passes, transforms one by one, and those written in Python."""

import copy
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from visops import transforms
from visops._native import Step
from visops.transforms.chain.compile import Compiled
from visops.transforms.chain.effects import step_of
from visops.transforms.chain.operators import Pixels

from transforms.chains import CHAINS, classification, photo, run_torch_operators
from transforms.samples import assert_same


@contextmanager
def one_by_one() -> Iterator[None]:
    """Draw each transform by itself, and take grey means by calls of the operator."""
    make = Compiled.__init__

    def apart(self: Compiled, *arguments: Any) -> None:
        make(self, *arguments)
        self.draws_together = False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compiled, "__init__", apart)
        patch.setattr("visops.transforms.chain.operators.data_ptr_and_strides", lambda _: None)
        yield


def result(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or the text of its error."""
    try:
        return call()
    except (TypeError, ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


_flags = st.booleans()
_factor = st.sampled_from([None, 0.4, (0.2, 2.0)])
_center = st.sampled_from([None, (3, 4.5)])
_sides = st.sampled_from([7, (20, 31), (1, 9)])

# Every transform with a step in C++.
GEOMETRY = st.one_of(
    st.builds(
        transforms.RandomResizedCrop,
        _sides,
        st.sampled_from([(0.08, 1.0), (1.5, 2.0), (0.5, 1.2)]),
        interpolation=st.sampled_from(["bilinear"]),
        antialias=_flags,
    ),
    st.builds(transforms.Resize, st.sampled_from([17, (20, 31)])),
    st.builds(transforms.Resize, st.just(20), max_size=st.sampled_from([21, 60])),
    st.builds(transforms.Resize, st.none(), max_size=st.just(33)),
    st.builds(transforms.CenterCrop, st.sampled_from([5, 20, (50, 3)])),
    st.builds(
        transforms.RandomCrop,
        st.sampled_from([5, 12]),
        st.sampled_from([None, 3, (1, 2), (1, 2, 3, 4)]),
        _flags,
    ),
    st.builds(transforms.Pad, st.just((1, 2, 3, 4))),
    st.builds(transforms.RandomHorizontalFlip),
    st.builds(transforms.RandomVerticalFlip),
    st.builds(
        transforms.RandomAffine,
        st.sampled_from([200, (90, 90), (-180, 180)]),
        st.sampled_from([None, (0.1, 0.2)]),
        st.sampled_from([None, (0.5, 1.5)]),
        st.sampled_from([None, 10, (-5, 5, -3, 3)]),
        center=_center,
    ),
    st.builds(
        transforms.RandomRotation,
        st.sampled_from([300, (90, 90), (180, 180), (-90, -90)]),
        center=_center,
    ),
    st.builds(transforms.RandomPerspective, st.floats(0.0, 1.0), p=st.just(0.7)),
    st.builds(transforms.Letterbox, st.just((30, 40)), st.just(0), _flags, _flags),
    st.builds(transforms.ScaleJitter, st.just((40, 30))),
    st.builds(transforms.RandomShortestSize, st.just([10, 20, 30]), st.sampled_from([None, 28])),
    st.builds(transforms.RandomResize, st.just(10), st.just(30)),
    st.builds(transforms.RandomZoomOut),
)
COLOR = st.one_of(
    st.builds(transforms.ColorJitter, _factor, _factor, _factor, st.sampled_from([None, 0.1, 0.5])),
    st.builds(transforms.RandomGrayscale, st.just(0.5)),
)
FINISH = st.sampled_from(
    [
        [],
        [transforms.ToDtype(torch.float32, scale=True), transforms.Normalize([0.5], [0.25])],
        [transforms.ToDtype(torch.float32, scale=True), transforms.RandomErasing(0.8, value=1.0)],
        [transforms.RandomErasing(value=3), transforms.RandomErasing(1.0, value=3)],
    ]
)
LAST = st.sampled_from([transforms.Resize((24, 20)), transforms.CenterCrop((24, 20))])
SIDE = st.integers(1, 50)


@st.composite
def samples(draw: Any) -> dict[str, Any]:
    """An image, a batch or a list of images, with boxes and key points."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    channels = draw(st.sampled_from([1, 3, 3]))
    dtype = draw(st.sampled_from([torch.uint8, torch.uint8, torch.float32, torch.float16]))

    def image(height: int, width: int) -> Tensor:
        values = torch.from_numpy(rng.integers(0, 256, (channels, height, width), np.uint8))
        return values if dtype is torch.uint8 else (values / 255).to(dtype)

    boxes = [[1.0, 2.0, 5.5, 3.0], [0.0, 0.0, 0.0, 9.0]]
    points = torch.tensor([[0.0, 0.5, 1.0], [-3.0, 7.0, 0.0], [np.nan, 2.0, 1.0]])
    form = draw(st.sampled_from(["one", "batch", "list"]))
    if form == "one":
        return {"image": image(draw(SIDE), draw(SIDE)), "boxes": boxes, "keypoints": points}
    count = draw(st.integers(1, 4))
    if form == "batch":
        height, width = draw(SIDE), draw(SIDE)
        images: Any = torch.stack([image(height, width) for _ in range(count)])
    else:
        images = [image(draw(SIDE), draw(SIDE)) for _ in range(count)]
    return {"image": images, "boxes": [boxes] * count, "keypoints": [points] * count}


@settings(max_examples=150, deadline=None)
@given(
    st.lists(GEOMETRY, max_size=4),
    st.lists(COLOR, max_size=3),
    FINISH,
    LAST,
    samples(),
    st.sampled_from(["keep", "clamp", "sanitize"]),
    st.integers(-(2**70), 2**70),
    st.booleans(),
)
def test_whole_passes_have_the_bits_of_their_transforms(
    geometry: list[Any],
    colors: list[Any],
    finish: list[Any],
    last: Any,
    sample: dict[str, Any],
    boxes: Any,
    seed: int,
    exact: bool,
) -> None:
    def made() -> transforms.Compose:
        steps = copy.deepcopy([*geometry, *colors, last, *finish])
        return transforms.Compose(steps, seed=seed, boxes=boxes, exact=exact)

    try:
        made()
    except ValueError:  # more colours than a pass has room for, or the like
        return
    count = 1 if torch.is_tensor(sample["image"]) and sample["image"].dim() == 3 else None
    index = list(range(5, 5 + (count or len(sample["image"]))))
    with one_by_one():
        apart = made()
        expected = result(lambda: apart(sample, index=index, epoch=2))
    chain = made()
    for _ in range(2):  # the first call finds out what no draw changes
        assert_same(result(lambda: chain(sample, index=index, epoch=2)), expected)
    whole = result(lambda: chain(sample, index=index, epoch=2, return_params=True))
    if not isinstance(whole, str):
        assert_same(whole[0], expected)
        assert_same(chain(sample, params=whole[1]), expected)


def test_draws_are_those_of_earlier_versions() -> None:
    # A seed must draw the same in every version. The numbers are those of the first release with
    # chains in Python alone.
    image = photo()
    chain = transforms.Compose(classification(), seed=3)
    steps = chain.make_params(image, index=7, epoch=1).steps
    crop = {"top": [20.0], "left": [16.0], "height": [284.0], "width": [363.0]}
    assert {name: value.tolist() for name, value in steps[0].items()} == crop
    assert steps[2]["angle"].tolist() == [1.001680811003478]
    assert steps[3]["contrast"].tolist() == [0.6956219893834059]
    indices = [-1, 7, 2**63, 2**70]
    for _ in range(2):  # by leaves, then directly
        alone = chain(image, index=7, epoch=1)
        batch = chain(torch.stack([image] * 4), index=indices, epoch=1)
        assert float(alone.double().sum()) == pytest.approx(-895.9806595444679, rel=1e-9)
        assert float(batch.double().sum()) == pytest.approx(-896.1902197599411, rel=1e-9)
        assert torch.equal(batch[1], alone)


def test_every_transform_of_the_package_is_a_step() -> None:
    """And needs as many numbers as its class says."""
    for name in CHAINS:
        for transform in transforms.Compose(CHAINS[name]()).transforms:
            step = step_of(transform)
            assert step is not None, transform
            assert step.num_uniforms == transform.draws, transform


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("Turn", {}, "there is no step Turn"),
        ("RandomRotation", {"expand": False}, "the step RandomRotation has no 'degrees'"),
        ("Pad", {"padding": [1, 2]}, "the step Pad has 2 numbers as 'padding', must have 4"),
        ("Pad", {"padding": [1] * 4, "fill": 0}, "the step Pad takes no 'fill'"),
        ("RandomAffine", {"degrees": (0, 1), "shear": [1] * 3}, "has 3 numbers as 'shear'"),
        ("ScaleAndShift", {"p": 1, "scale": (1, 1), "shift": [1]}, "a 'shift' without pairs"),
        ("RandomShortestSize", {"min_size": []}, "needs one 'min_size' or more"),
        ("RandomHorizontalFlip", {"p": None}, "has no 'p'"),
    ],
)
def test_fields_of_steps_are_checked(name: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Step(name, fields)


def test_draws_may_be_a_subclass_s_own() -> None:
    class More(transforms.RandomRotation):
        draws = 3

    assert (transforms.RandomRotation(9).draws, More(9).draws) == (1, 3)
    assert transforms.RandomRotation(9, interpolation="random").draws == 2
    assert transforms.Resize(9).draws == 0


class Upside(transforms.RandomVerticalFlip):
    """A subclass whose draw is its own."""

    def make_params(self, uniforms: Any, canvas: Any) -> Any:
        return {"apply": uniforms[:, 0] < 2.0}


class Renamed(transforms.RandomVerticalFlip):
    """A subclass that changes nothing."""


def test_subclasses_with_their_own_draw_run_in_python() -> None:
    image = photo()
    for cls, p, is_step in ((Upside, 0.0, False), (Renamed, 1.0, True)):
        chain = transforms.Compose([cls(p)], seed=0)
        assert (step_of(chain.transforms[0]) is not None) == is_step
        for _ in range(2):
            assert torch.equal(chain(image), image.flip(-2))
    replaced = transforms.RandomVerticalFlip(0.0)
    replaced.make_params = lambda uniforms, canvas: {"apply": np.array([True])}  # type: ignore[method-assign]
    assert torch.equal(transforms.Compose([replaced])(image), image.flip(-2))


class Half(transforms.RandomRotation):
    """A subclass that draws in Python and extends in C++."""

    def make_params(self, uniforms: Any, canvas: Any) -> Any:
        params = super().make_params(uniforms, canvas)
        return {"angle": params["angle"] * 0.5}


def test_choices_of_transforms_in_python_and_in_cpp_agree() -> None:
    """A group with a transform in Python makes all of them run there."""

    class Same(transforms.RandomRotation):
        def make_params(self, uniforms: Any, canvas: Any) -> Any:
            return super().make_params(uniforms, canvas)

    batch = torch.stack([photo()] * 8)
    results = []
    for turn in (transforms.RandomRotation, Same):
        for exact in (False, True):
            group = [turn(40), transforms.ColorJitter(0.4, 0.4), transforms.RandomErasing(1.0)]
            crop = transforms.RandomResizedCrop((90, 80))
            chain: list[Any] = [
                crop,
                transforms.RandomApply(group, 0.5),
                transforms.Resize((60, 70)),
            ]
            composed = transforms.Compose(chain, seed=3, exact=exact)
            results.append(composed(batch, index=range(8), return_params=True))
    for (cpp, params), (python, others) in zip(results[:2], results[2:], strict=True):
        assert torch.equal(cpp, python)
        for step, other in zip(params.steps, others.steps, strict=True):
            assert step.keys() == other.keys()
            assert all((step[name] == other[name]).all() for name in step)
    halves = transforms.Compose([Half((60, 60))], seed=0)
    whole = transforms.Compose([transforms.RandomRotation((30, 30))], seed=0)
    assert torch.equal(halves(batch), whole(batch))


def test_errors_name_the_sample() -> None:
    chain = transforms.Compose([transforms.RandomCrop(40)], seed=0)
    for _ in range(2):
        chain(photo())
    small = torch.zeros(3, 60, 20, dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"RandomCrop: size is \(40, 40\), the image has height"):
        chain(small)
    sizes = [photo(), small]
    with pytest.raises(ValueError, match="the image of sample 1 has height 60 and width 20"):
        chain.collate(sizes)


def test_threads_share_a_chain() -> None:
    chain, image = transforms.Compose(classification(), seed=0), photo()
    expected = [chain(image, index=i) for i in range(16)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: chain(image, index=i % 16), range(64)))
    for i, one in enumerate(found):
        assert torch.equal(one, expected[i % 16])


def test_missing_and_odd_parameters_are_named() -> None:
    chain = transforms.Compose([transforms.RandomRotation(9)], seed=0)
    _, params = chain(photo(), return_params=True)
    params.steps[0] = {}
    with pytest.raises(ValueError, match="params has no 'angle'"):
        chain(photo(), params=params)
    params.steps[0] = {"angle": np.zeros(5)}
    with pytest.raises(ValueError, match="params has 5 numbers as 'angle', must have 1"):
        chain(photo(), params=params)
    params.steps[0] = {"angle": "a"}  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="params has a str as 'angle', must have numbers"):
        chain(photo(), params=params)
    # They would be lost on a transform that has no such argument.
    zoom = transforms.Compose([transforms.RandomAffine(9, scale=(0.5, 2))], seed=0)
    _, zoomed = zoom(photo(), return_params=True)
    with pytest.raises(ValueError, match=r"params has 'scale', .*; must have \['angle'\]"):
        transforms.Compose([transforms.RandomAffine(9)])(photo(), params=zoomed)


def test_an_image_without_channels_and_lists_for_tensors_are_refused() -> None:
    flip = transforms.Compose([transforms.RandomHorizontalFlip()])
    with pytest.raises(ValueError, match=r"^visops\.transforms: an image has 0 channels, must ha"):
        flip(torch.zeros(0, 5, 5))
    whiten: Any = transforms.LinearTransformation
    with pytest.raises(TypeError, match="transformation_matrix is a list, must be a"):
        whiten([[1.0]], [0.0])


def test_nothing_waits_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grey means of images there stay there: no number is read back."""
    image = photo()[:, ::3, ::3]
    batch = torch.stack((image, image.flip(0), image.flip(1)))
    chains = {
        (name, exact): transforms.Compose(CHAINS[name](), seed=4, exact=exact)
        for name in CHAINS
        for exact in (False, True)
    }
    expected = {name: chain(batch, index=range(3)) for name, chain in chains.items()}

    class OnGpu(Pixels):
        def __init__(self, leaf: Any) -> None:
            super().__init__(leaf)
            self.on_cpu, self.device = False, SimpleNamespace(type="cuda")  # type: ignore[assignment]

        def put(self, array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(array.copy())

    run_torch_operators(monkeypatch)
    monkeypatch.setattr("visops.transforms.chain.execute.Pixels", OnGpu)
    monkeypatch.setattr("visops.transforms.chain.operators.data_ptr_and_strides", lambda _: None)
    monkeypatch.setattr(Tensor, "item", None)
    monkeypatch.setattr(Tensor, "numpy", None)
    monkeypatch.setattr(Tensor, "tolist", None)
    for name, chain in chains.items():
        assert torch.equal(chain(batch, index=range(3)), expected[name]), name
