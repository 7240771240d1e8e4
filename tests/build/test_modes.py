"""Torch's modes: autocast, the default dtype, subclasses, the counter of operations."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import fresh
import numpy as np
import pytest
import torch
import torch.nn.functional as F
import visops
from contract.calls import tensors_of
from fuzz.calls import all_targets, valid_arguments
from fuzz.draws import Draw
from subclasses import Other, Stranger
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode
from transforms.chains import CHAINS
from visops import transforms
from visops import transforms as T
from visops._torch.unsupported_inputs import called

IMAGES, KERNEL = torch.rand(2, 3, 20, 30), torch.rand(5, 4) - 0.5


GRID = torch.rand(3, 4, 2)


MATRIX = torch.rand(12, 12)


FILTERS = (visops.convolve2d, visops.correlate2d, visops.filter2d)


PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    **{f.__name__: (functools.partial(f, method="im2col"), (IMAGES, KERNEL)) for f in FILTERS},
    "displacement_field": (lambda g: visops.displacement_field(g, (9, 8), spline=True), (GRID,)),
    "remap": (
        lambda g: torch.ops.visops.remap(
            *(IMAGES, g[None, ..., 0], g[None, ..., 1], [20, 30], torch.eye(3).double()[None]),
            *("spline", True, "bilinear", "reflect", [0.0]),
        ),
        (GRID,),
    ),
    "LinearTransformation": (
        transforms.LinearTransformation(MATRIX, torch.zeros(12)),
        (IMAGES[0, :, :2, :2],),
    ),
}


def derivatives(call: Callable[..., Any], inputs: Any) -> list[Tensor | None]:
    """Return results and the gradients of their sum, weighted."""

    def leaf(value: Any) -> Any:
        if isinstance(value, Tensor):
            copy = value.detach().clone()
            return copy.requires_grad_() if copy.is_floating_point() else copy
        return type(value)(map(leaf, value))

    given = leaf(tuple(inputs))
    results = tensors_of(call(*given))
    wanted = [result for result in results if result.requires_grad]
    sources = [tensor for tensor in tensors_of(given) if tensor.requires_grad]
    weights = [torch.linspace(0.5, 1.5, r.numel(), dtype=r.dtype).view(r.shape) for r in wanted]
    found = torch.autograd.grad(wanted, sources, weights, allow_unused=True) if wanted else ()
    return [*results, *found]


def assert_left_alone(call: Callable[..., Any], inputs: Any) -> None:
    expected = derivatives(call, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        found = derivatives(call, inputs)
        with torch.no_grad():
            found += tensors_of(call(*inputs))
    with torch.no_grad():
        expected += tensors_of(call(*inputs))
    for a, b in zip(found, expected, strict=True):
        if a is not None and b is not None:
            assert a.dtype == b.dtype
            scale = (
                max(1.0, float(b.detach().double().abs().max())) if b.numel() else 1.0
            )  # a product's other order
            torch.testing.assert_close(a, b, rtol=0, atol=1e-5 * scale, equal_nan=True)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_left_alone(name: str) -> None:
    assert_left_alone(*PRODUCTS[name])


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_products_under_compile_and_torch_func(half: torch.dtype) -> None:
    call = PRODUCTS["convolve2d"][0]
    torch._dynamo.reset()
    compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
    expected = derivatives(call, (IMAGES, KERNEL))
    each = torch.vmap(call, (0, None))(IMAGES, KERNEL)
    with torch.autocast("cpu", half):
        found = derivatives(compiled, (IMAGES, KERNEL))
        mapped = torch.vmap(call, (0, None))(IMAGES, KERNEL)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(mapped, each, rtol=1e-5, atol=1e-5)


# Without a tensor among their arguments, these make one of the default dtype, as torch does.
MAKING = ("visops.get_affine_matrix", "visops.get_rotation_matrix2d")


TARGETS = {target.name: target for target in all_targets() if target.name not in MAKING}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", TARGETS)
def test_every_operator_and_function(name: str, dtype: torch.dtype) -> None:
    target = TARGETS[name]
    done = 0
    for seed in range(20):
        arguments = valid_arguments(Draw(f"{name}/{seed}"), target)
        torch.manual_seed(seed)
        try:
            expected = target.function(**arguments)
        except (RuntimeError, ValueError, TypeError):
            continue
        if isinstance(expected, nn.Module):
            return  # its parameters have the default dtype, as those of torch's modules
        before = torch.get_default_dtype()
        torch.manual_seed(seed)
        torch.set_default_dtype(dtype)
        try:
            found = target.function(**arguments)
        finally:
            torch.set_default_dtype(before)
        for one, other in zip(*map(pytree.tree_leaves, (found, expected)), strict=True):
            if isinstance(other, Tensor):
                assert one.dtype == other.dtype
                assert torch.equal(one.nan_to_num(7.0), other.nan_to_num(7.0))
        done += 1
        if done == 3:
            return


def counted(call: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("backward", [False, True])
def test_layers_count_as_torch_s(groups: int, backward: bool) -> None:
    image = torch.rand(2, 4, 9, 10, requires_grad=backward)
    weight = torch.rand(6, 4 // groups, 3, 3, requires_grad=backward)

    def run(function: Any, *arguments: Any) -> Any:
        result = function(image, *arguments)
        return result.sum().backward() if backward else result

    with torch.no_grad():  # of its gradient's weights, torch counts those of other groups as well
        expected = counted(lambda: F.conv2d(image, weight, None, 1, 1, 1, groups))
    expected *= 3 if backward else 1
    assert counted(lambda: run(visops.conv2d, weight, None, 1, 1, 1, groups)) == expected > 0
    if groups == 1:
        offset = torch.zeros(2, 18, 9, 10, requires_grad=backward)
        found = counted(lambda: run(visops.deform_conv2d, offset, weight, None, 1, 1))
        assert found == expected or (backward and found > expected)  # and the offsets' gradients


def test_filters() -> None:
    image = torch.rand(5, 20, 30)
    kernel = torch.rand(3, 7)
    direct = counted(lambda: visops.convolve2d(image, kernel, "same", method="direct"))
    assert direct == 2 * image.numel() * 21
    assert counted(lambda: visops.gaussian_blur(image, 5, 1.0)) > 0


def test_the_counter_may_be_imported_before_or_after() -> None:
    program = """
import {first}
import {second}
import torch, visops
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False) as counter:
    visops.conv2d(torch.rand(1, 1, 4, 4), torch.rand(1, 1, 3, 3))
print(counter.get_total_flops())
"""
    names = ("visops", "torch.utils.flop_counter")
    for first, second in (names, names[::-1]):
        code = program.format(first=first, second=second)
        assert int(fresh.run(code, check=True).stdout) == 2 * 4 * 9


SUBCLASSED = torch.rand(2, 4, 8, 9, generator=torch.Generator().manual_seed(0))


ROWS = torch.tensor([[0.0, 1, 1, 5, 6], [1, 0, 2, 7, 7]])


BOXES = ROWS[:, 1:]


def test_errors_are_the_operators() -> None:
    images, short = SUBCLASSED.as_subclass(Other), BOXES.as_subclass(Stranger)
    with pytest.raises(RuntimeError, match=r"^visops\.roi_align: boxes has shape \[2, 4\], must"):
        visops.roi_align(images, short, 2)


def test_other_type_errors_are_not_tried_again() -> None:
    calls: list[Any] = []

    def operator(tensor: Tensor) -> None:
        calls.append(tensor)
        raise TypeError("visops.op: one call is enough")

    with pytest.raises(TypeError, match=r"^visops\.op: one call is enough$"):
        called(operator, SUBCLASSED)
    assert len(calls) == 1


# Without a tensor among their arguments, these make one where torch makes new ones.
PHOTO = torch.randint(0, 256, (3, 40, 60), dtype=torch.uint8, generator=torch.Generator())


@pytest.fixture
def elsewhere() -> Iterator[None]:
    """A default device that holds no numbers: whoever reads one from it fails."""
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


def on_cpu() -> torch.device:
    return torch.device("cpu")


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("name", TARGETS)
def test_every_operator_and_function_on_a_default_device(name: str) -> None:
    target = TARGETS[name]
    done = 0
    for seed in range(20):
        with on_cpu():
            arguments = valid_arguments(Draw(f"{name}/{seed}"), target)
            try:
                expected = target.function(**arguments)
            except (RuntimeError, ValueError, TypeError):
                continue
        found = target.function(**arguments)
        if isinstance(found, nn.Module):
            return  # its parameters are where modules have theirs
        for one, other in zip(*map(pytree.tree_leaves, (found, expected)), strict=True):
            if isinstance(other, Tensor):
                assert one.device == other.device
        done += 1
        if done == 3:
            return


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("name", CHAINS)
def test_chains(name: str) -> None:
    with on_cpu():
        chain = T.Compose(CHAINS[name](), seed=0)
        expected = [chain(PHOTO, index=i) for i in range(3)]
    chain = T.Compose(CHAINS[name](), seed=0)
    found = [chain(PHOTO, index=i) for i in range(3)]
    assert all(map(torch.equal, found, expected))
    assert torch.equal(chain(PHOTO.expand(2, -1, -1, -1), index=[0, 1])[1], expected[1])
    chain(PHOTO)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("name", ["Grayscale", "ToImage"])
def test_transforms_that_run_by_themselves(name: str) -> None:
    """A batch's result was made on the default device, and so were tv_tensors."""
    transform = getattr(T, name)()
    for images in (PHOTO, torch.stack([PHOTO] * 2), torch.stack([PHOTO] * 2).float()):
        with on_cpu():
            expected = transform(images)
        found = transform(images)
        assert found.device == expected.device
        assert torch.equal(found, expected)


def targets() -> dict[str, Any]:
    boxes = torch.from_numpy(np.array([[3.0, 4, 20, 30], [10, 5, 50, 35]]))
    return {
        "image": PHOTO,
        "boxes": boxes,
        "labels": [0, 1],
        "masks": torch.from_numpy(np.ones((2, 40, 60), np.uint8)),
        "mask": np.ones((40, 60), np.uint8),
        "keypoints": boxes.reshape(2, 2, 2),
    }


@pytest.mark.usefixtures("elsewhere")
def test_targets_choosers_and_mixing() -> None:
    steps: list[Any] = [T.RandomOrder([T.RandomHorizontalFlip(), T.RandomRotation(10)])]
    for boxes in ("keep", "clamp", "sanitize"):
        chain = T.Compose([*steps, T.RandomCrop(30)], seed=0, boxes=boxes)
        moved, params = chain(targets(), index=0, return_params=True)
        back = chain.inverse({"boxes": moved["boxes"]}, params)["boxes"]
        assert back.device == moved["image"].device == moved["boxes"].device == on_cpu()
    for mix in (T.Mosaic(40), T.MixUp(), T.CutMix()):
        batch = [{k: v for k, v in targets().items() if k != "mask"} for _ in range(4)]
        mixed = mix.collate(batch)
        assert mixed["image"].device == on_cpu() or isinstance(mixed["image"], list)
        assert mixed["boxes"][0].device == on_cpu()
    labels = torch.from_numpy(np.array([0, 2]))
    images, soft = T.MixUp(num_classes=3)(torch.stack([PHOTO] * 2), labels)
    assert images.device == soft.device == on_cpu()


@pytest.mark.usefixtures("elsewhere")
def test_fill_values() -> None:
    image = torch.from_numpy(np.ones((9, 9), np.float32))
    for fill in (0.0, 2.5):
        found = visops.convolve2d(image, image[:3, :3], fillvalue=fill)
        assert found.device == on_cpu()
