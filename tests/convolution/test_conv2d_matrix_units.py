"""The products by a GPU's matrix units: halves, and float32 as TF32 where it is allowed.

Values are compared on whatever kernels are in force; what only the emulated ones do is looked for
on those.
"""

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import visops
from guarded import guarded_memory
from kernels import SLOTS, use_schedule, use_slot
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from convolution.conv2d_cases import (
    CASES,
    LAYOUTS,
    Case,
    assert_near,
    both_gradients,
    channels_last,
    elements,
    exact_sums,
    operands,
    wide,
)

OPS = torch.ops.visops
MODULE = importlib.import_module("visops.convolution.conv2d")  # of the function's name
HALVES = (torch.float16, torch.bfloat16)
# One more than a tile's rows and columns, several row and column tiles, several steps of few and of
# many channels, pieces that are full, partly full and whole; strides, whose gradients have phases.
TILES = {
    "a tile": Case((1, 16, 8, 16), (64, 16, 1, 1)),
    "beyond a tile": Case((1, 33, 3, 43), (65, 33, 1, 1)),
    "many tiles": Case((2, 8, 9, 15), (130, 8, 3, 3), padding=(1, 1)),
    "two channels": Case((2, 2, 9, 24), (5, 2, 3, 2), padding=(1, 0)),
    "three channels": Case((1, 3, 21, 30), (20, 3, 7, 7), stride=(2, 2), padding=(3, 3)),
    "many channels": Case((1, 140, 5, 8), (9, 140, 2, 3), padding=(1, 1)),
    "groups": Case((2, 24, 6, 8), (36, 8, 3, 3), padding=(1, 1), groups=3),
    "strides": Case((2, 16, 14, 15), (24, 16, 3, 3), stride=(2, 3), padding=(1, 2)),
    "gaps": Case((1, 8, 16, 19), (8, 8, 2, 3), stride=(3, 5), dilation=(2, 4), padding=(2, 3)),
    "phases without taps": Case((1, 8, 11, 12), (16, 8, 1, 2), stride=(3, 4)),
    "narrow": Case((2, 16, 20, 3), (8, 16, 3, 3), padding=(1, 1)),
}
ALL = {**CASES, **TILES}
every_tile = pytest.mark.parametrize("name", TILES)
every_case = pytest.mark.parametrize("name", ALL)


def all_three(
    case: Case, input: Tensor, weight: Tensor, bias: Tensor | None, grad: Tensor, tf32: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The convolution, and the gradients of input and weight."""
    last = input.is_contiguous(memory_format=torch.channels_last) and not input.is_contiguous()
    return (
        OPS.conv2d(input, weight, bias, *case.options, tf32),
        OPS.conv2d_backward_input(grad, weight, input.shape, *case.options, last, tf32),
        OPS.conv2d_backward_weight(grad, input, weight.shape, *case.options, tf32),
    )


def tensors_of(case: Case, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    input, weight, bias = operands(case, dtype)
    shape = OPS.conv2d(input.to("meta"), weight.to("meta"), None, *case.options).shape
    return input, weight, bias, elements(tuple(shape), dtype, 3)


def exact_three(
    case: Case, input: Tensor, weight: Tensor, bias: Tensor | None, grad: Tensor
) -> tuple[Tensor, ...]:
    tensors = [t for t in (input, weight, bias) if t is not None]
    return exact_sums(case, *tensors)[0], *both_gradients(case, grad, input, weight)


def counts(case: Case, grad: Tensor) -> tuple[int, int, int]:
    """How many products the longest sum of each has."""
    outs, ins, height, width = case.weight
    area = height * width
    return ins * area + 1, outs // case.groups * area, grad[:, 0].numel()


@pytest.mark.matrix
@every_tile
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_whole_numbers_are_exact(dtype: torch.dtype, name: str) -> None:
    """Sums of small whole numbers: an element too much, too few or elsewhere shows."""
    case = TILES[name]
    tensors = [(t * 2).round().clamp(-4, 4) for t in tensors_of(case, dtype)]
    expected = exact_three(case, *tensors)
    for laid in LAYOUTS.values():
        input, weight, bias, grad = (laid(t) if t.dim() == 4 else t for t in tensors)
        found = all_three(case, input, weight, bias, grad, False)
        for ours, exact in zip(found, expected, strict=True):
            assert torch.equal(ours, exact.to(dtype))


@pytest.mark.matrix
@every_tile
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_halves(dtype: torch.dtype, name: str) -> None:
    """The error of sums in float32, as without matrix units."""
    case = TILES[name]
    tensors = tensors_of(case, dtype)
    magnitudes = exact_three(case, *(wide(t).abs() for t in tensors))
    found = all_three(case, *tensors, False)
    checked = zip(
        found, exact_three(case, *tensors), magnitudes, counts(case, tensors[3]), strict=True
    )
    for ours, exact, magnitude, terms in checked:
        assert_near(ours, exact, magnitude.abs(), terms)


@pytest.mark.matrix
@every_case
def test_tf32(name: str) -> None:
    """Each operand is rounded by 2**-11 at most, a product by 2**-10 + 2**-22; float32 sums."""
    case = ALL[name]
    tensors = tensors_of(case, torch.float32)
    magnitudes = exact_three(case, *(wide(t).abs() for t in tensors))
    found = all_three(case, *tensors, True)
    eps = torch.finfo(torch.float32).eps
    checked = zip(
        found, exact_three(case, *tensors), magnitudes, counts(case, tensors[3]), strict=True
    )
    for ours, exact, magnitude, terms in checked:
        bound = (2**-10 + 2**-22 + (terms + 1) * eps) * magnitude.abs()
        assert bool(((wide(ours) - exact).abs() <= bound).all())


def to_tf32(tensor: Tensor) -> Tensor:
    """Round to 10 bits of mantissa, from the middle away from 0."""
    return (tensor.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32)


@every_tile
def test_tf32_is_a_product_of_rounded_numbers(name: str) -> None:
    case = TILES[name]
    if case.weight[1] == 1:
        return
    input, weight, _, grad = tensors_of(case, torch.float32)
    rounded = [to_tf32(t) for t in (input, weight, grad)]
    ones = [torch.ones_like(t) for t in (input, weight)]
    for tensors in ((input, weight, None, grad), (input, ones[1], None, grad)):
        with use_slot("cuda_emulated"):
            found = all_three(case, *tensors, True)
        first, second = to_tf32(tensors[0]), to_tf32(tensors[1])
        expected = exact_three(case, first, second, None, rounded[2])
        magnitudes = exact_three(case, first.abs(), second.abs(), None, rounded[2].abs())
        checked = zip(found, expected, magnitudes, counts(case, grad), strict=True)
        for ours, exact, magnitude, terms in checked:
            assert_near(ours, exact, magnitude.abs(), terms)
    with use_slot("cuda_emulated"):
        full = all_three(case, input, weight, None, grad, False)
    assert not any(
        torch.equal(a, b)
        for a, b in zip(full, all_emulated(case, input, weight, grad), strict=True)
    )


def all_emulated(case: Case, input: Tensor, weight: Tensor, grad: Tensor) -> tuple[Tensor, ...]:
    with use_slot("cuda_emulated"):
        return all_three(case, input, weight, None, grad, True)


def test_ties_go_away_from_zero() -> None:
    """As cvt.rna does; and what is not finite stays."""
    inf = float("inf")
    values = torch.tensor([1 + 2**-11, -1 - 2**-11, 1 + 3 * 2**-11, 1 + 2**-11 - 2**-23, inf, -inf])
    rounded = [1 + 2**-10, -1 - 2**-10, 1 + 2**-9, 1.0, inf, -inf]
    input = torch.zeros(1, 2, 1, 7)
    input[0, 0, 0] = torch.cat([values, torch.tensor([float("nan")])])
    weight = torch.tensor([1.0, 1]).view(1, 2, 1, 1)
    with use_slot("cuda_emulated"):
        found = OPS.conv2d(input, weight, None, [1, 1], [0, 0], [1, 1], 1, True).flatten()
    assert found[:6].tolist() == rounded
    assert bool(found[6].isnan())


@pytest.mark.parametrize(
    "case",
    [
        Case((2, 5, 8, 9), (5, 1, 3, 3), padding=(1, 1), groups=5),
        Case((1, 1, 9, 30), (8, 1, 3, 3)),
    ],
    ids=["depthwise", "one channel"],
)
def test_one_channel_takes_no_matrix_units(case: Case) -> None:
    """Most of a piece would be zeros: float32 stays as it is."""
    input, weight, bias, grad = tensors_of(case, torch.float32)
    with use_slot("cuda_emulated"):
        full, tf32 = (all_three(case, input, weight, bias, grad, tf32) for tf32 in (False, True))
    assert torch.equal(full[0], tf32[0])
    assert torch.equal(full[2], tf32[2])


@pytest.mark.parametrize("slot", SLOTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_other_kernels_round_nothing(dtype: torch.dtype, slot: str) -> None:
    if (dtype, slot) == (torch.float32, "cuda_emulated"):
        return  # these round
    case = TILES["three channels"]
    with use_slot(slot):
        tensors = tensors_of(case, dtype)
        full, tf32 = (all_three(case, *tensors, allowed) for allowed in (False, True))
    assert all(torch.equal(a, b) for a, b in zip(full, tf32, strict=True))


def test_halves_take_matrix_units() -> None:
    """Their sums go over the kernel's elements first: 2**30 + 1 + 1 + 1 - 2**30 + 1 + 1 + 1."""
    input = torch.ones(1, 4, 1, 2, dtype=torch.float16)
    weight = torch.ones(1, 4, 1, 2, dtype=torch.float16)
    weight[0, 0, 0] = torch.tensor([2.0**15, -(2.0**15)])
    input[0, 0, 0] = 2.0**15
    with use_slot("cuda_emulated"):
        assert OPS.conv2d(input, weight).item() == 3
        # Channels first, as other kernels have it; these take one number a piece at a time.
        pairs = OPS.conv2d(input[:, :2], weight[:, :2])
    assert pairs.item() == 2


@pytest.mark.matrix
@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize("aligned", [False, True])
def test_pieces_that_lie_whole(aligned: bool, tf32: bool) -> None:
    """16 bytes at once or number by number: the same bits."""
    dtype = torch.float32 if tf32 else torch.bfloat16
    case = Case((2, 16, 6, 16), (24, 16, 3, 3), padding=(1, 1))
    input, weight, bias, grad = tensors_of(case, dtype)
    expected = all_three(case, input, weight, bias, grad, tf32)

    def moved(tensor: Tensor) -> Tensor:
        """By one element, unless aligned."""
        memory = torch.zeros(tensor.numel() + 9, dtype=dtype)
        start = -(memory.data_ptr() // memory.element_size()) % 8 + (0 if aligned else 1)
        return memory.as_strided(tensor.shape, tensor.stride(), start).copy_(tensor)

    for laid in (torch.clone, channels_last):
        found = all_three(case, moved(laid(input)), weight, bias, moved(laid(grad)), tf32)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.matrix
@pytest.mark.parametrize("tf32", [False, True])
def test_views_of_larger_tensors(tf32: bool) -> None:
    """What lies between their numbers is not read as a part of a piece."""
    dtype = torch.float32 if tf32 else torch.float16
    case = Case((2, 14, 6, 14), (24, 14, 3, 3), padding=(1, 1))
    input, weight, bias, grad = tensors_of(case, dtype)
    expected = all_three(case, input, weight, bias, grad, tf32)

    def within(tensor: Tensor, layout: torch.memory_format) -> Tensor:
        sizes = [n + 2 if d in (1, 3) else n for d, n in enumerate(tensor.shape)]
        larger = torch.full(sizes, float("nan"), dtype=dtype).to(memory_format=layout)
        return larger[:, :-2, :, :-2].copy_(tensor)

    for layout in (torch.contiguous_format, torch.channels_last):
        views = within(input, layout), weight, bias, within(grad, layout)
        found = all_three(case, *views, tf32)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["3x3", "two channels", "narrow", "many channels", "strides"])
@pytest.mark.parametrize("dtype", [*HALVES, torch.float32], ids=str)
def test_infinities_do_not_spread(dtype: torch.dtype, name: str) -> None:
    """Neither from beyond a line, nor to zeros that fill pieces and tiles."""
    case = ALL[name]
    input, weight, _, grad = tensors_of(case, dtype)
    weight, grad = weight.abs() + 1, torch.ones_like(grad)
    tf32 = dtype == torch.float32
    for value in (float("inf"), float("nan")):
        for at in ((0, 0), (0, -1), (-1, -1)):
            marked = input.clone()
            marked[0, 0, at[0], at[1]] = value
            found = all_three(case, marked, weight, None, grad, tf32)
            marks = marked.isfinite().logical_not().double()
            reached = exact_three(case, marks, weight, None, grad)
            assert torch.equal(found[0].isfinite(), reached[0] == 0)
            assert torch.equal(found[2].isfinite(), reached[2] == 0)
    marked = grad.clone()
    marked[0, 0, 0, -1] = float("inf")
    found = all_three(case, input, weight, None, marked, tf32)
    marks = marked.isfinite().logical_not().double()
    reached = exact_three(case, input, weight, None, marks)
    assert torch.equal(found[1].isfinite(), reached[1] == 0)
    assert bool(found[2][1:].isfinite().all())
    assert not bool(found[2][0].isfinite().all())


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32], ids=str)
def test_any_schedule(dtype: torch.dtype) -> None:
    """The order of blocks and threads changes no bit."""
    case = TILES["many tiles"]
    tensors = tensors_of(case, dtype)
    with use_slot("cuda_emulated"):
        expected = all_three(case, *tensors, True)
        for seed in (1, 2):
            with use_schedule(seed):
                found = all_three(case, *tensors, True)
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("end", [False, True])
def test_memory_beyond_tensors_is_not_read(end: bool) -> None:
    case = Case((2, 16, 6, 16), (24, 16, 3, 3), padding=(1, 1))
    for dtype in (torch.float16, torch.float32):
        for layout in (torch.contiguous_format, torch.channels_last):
            input, weight, _, grad = tensors_of(case, dtype)
            with guarded_memory() as memory, use_slot("cuda_emulated"):
                size = input.numel() * input.element_size()
                part = memory[-size:] if end else memory[:size]
                strides = input.to(memory_format=layout).stride()
                image = torch.from_numpy(part).view(dtype).as_strided(input.shape, strides)
                image.copy_(input)
                expected = all_three(case, image.clone(), weight, None, grad, True)
                found = all_three(case, image, weight, None, grad, True)
                assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
                del image, part


@pytest.fixture
def restored_precision() -> Iterator[Any]:
    """Let a test set what torch allows its own convolution."""
    cudnn: Any = torch.backends.cudnn  # has no type for `conv`
    before = cudnn.conv.fp32_precision
    yield cudnn
    cudnn.conv.fp32_precision = before


@pytest.mark.parametrize("setting", ["tf32", "ieee", "none"])
def test_torchs_setting_is_followed(
    setting: str, restored_precision: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only on CUDA and for float32; the raw operator rounds nothing unless asked to."""
    restored_precision.conv.fp32_precision = setting
    asked: list[bool] = []
    implicit: Callable[..., Tensor] = MODULE._implicit

    def recorded(*arguments: Any) -> Tensor:
        asked.append(arguments[-1])
        return implicit(*arguments)

    monkeypatch.setattr(MODULE, "_implicit", recorded)
    with FakeTensorMode():
        for device, dtype in (
            ("cuda", torch.float32),
            ("cuda", torch.float16),
            ("cuda", torch.float64),
            ("cpu", torch.float32),
        ):
            image = torch.empty(1, 2, 4, 4, device=device, dtype=dtype)
            weight = torch.empty(3, 2, 3, 3, device=device, dtype=dtype)
            visops.conv2d(image, weight, method="implicit")
    assert asked == [setting == "tf32", False, False, False]
    schemas = [OPS.conv2d, OPS.conv2d_backward_input, OPS.conv2d_backward_weight]
    for op in schemas:
        (argument,) = [a for a in op.default._schema.arguments if a.name == "allow_tf32"]
        assert argument.default_value is False


def test_older_setting_counts_too(restored_precision: Any) -> None:
    for allowed in (False, True):
        restored_precision.allow_tf32 = allowed
        assert MODULE._torch_allows_tf32() == allowed


def test_compiled_code_keeps_the_setting(restored_precision: Any) -> None:
    """In one graph."""

    def scaled(tensor: Tensor) -> Tensor:
        return tensor * (3 if MODULE._torch_allows_tf32() else 5)

    for setting, expected in (("tf32", 3), ("ieee", 5)):
        restored_precision.conv.fp32_precision = setting
        torch._dynamo.reset()
        compiled = torch.compile(scaled, fullgraph=True, backend="eager")
        assert compiled(torch.ones(1)).item() == expected


def test_gradients_follow_the_forward_call() -> None:
    """To the second order."""
    case = TILES["three channels"]
    input, weight, _, grad = tensors_of(case, torch.float32)
    leaves = [input.requires_grad_(), weight.requires_grad_(), grad.requires_grad_()]
    with use_slot("cuda_emulated"):
        value = OPS.conv2d(input, weight, None, *case.options, True)
        first = torch.autograd.grad(value, leaves[:2], grad, create_graph=True)
        plain = [t.detach() for t in leaves]
        expected = all_three(case, plain[0], plain[1], None, plain[2], True)
        for ours, wanted in zip((value, *first), expected, strict=True):
            assert torch.equal(ours, wanted)
        by_grad, by_weight = torch.autograd.grad(first[0], (grad, weight), input.detach())
        assert torch.equal(by_grad, expected[0])
        assert torch.equal(by_weight, expected[2])
        by_grad, by_input = torch.autograd.grad(first[1], (grad, input), weight.detach())
        assert torch.equal(by_grad, expected[0])
        assert torch.equal(by_input, expected[1])
