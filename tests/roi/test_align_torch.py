"""RoIAlign within torch: opcheck, compile, vmap, torch.func, fake tensors, autocast, threads."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
import visops
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from roi.align_cases import LAYOUTS, boxes_of, channels_last, maps_of, pyramid_of, same_bits

OPS = torch.ops.visops
SCALES = [1.0, 0.5]
Pool = Callable[[Tensor, Tensor], Tensor]


def mean(maps: Tensor, boxes: Tensor) -> Tensor:
    return visops.roi_align(maps, boxes, (2, 3), 0.9, 2, True)


def largest(maps: Tensor, boxes: Tensor) -> Tensor:
    return visops.roi_align(maps, boxes, (2, 3), 0.9, 2, True, reduce="max")


def pyramid(maps: Tensor, boxes: Tensor) -> Tensor:
    """Pool from a map and its upper left quarter."""
    levels = [maps, maps[..., : maps.shape[2] // 2, : maps.shape[3] // 2] * 2]
    return visops.multiscale_roi_align(
        levels, boxes, (2, 3), SCALES, 2, canonical_scale=6, canonical_level=1, aligned=True
    )


POOLS: dict[str, Pool] = {"mean": mean, "max": largest, "pyramid": pyramid}
every_pool = pytest.mark.parametrize("name", POOLS)


def sample(
    dtype: torch.dtype = torch.float32, channels: int = 3, count: int = 7, height: int = 9
) -> tuple[Tensor, Tensor]:
    maps = torch.from_numpy(maps_of((2, channels, height, 11))).to(dtype)
    return maps, torch.from_numpy(boxes_of("overhanging", count)).to(dtype)


def gradients(pool: Pool, maps: Tensor, boxes: Tensor) -> tuple[Tensor, ...]:
    leaves = maps.detach().requires_grad_(), boxes.detach().requires_grad_()
    values = pool(*leaves)
    return values.detach(), *torch.autograd.grad(values.square().sum(), leaves)


def leaves(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(t.detach().requires_grad_() for t in tensors)


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [
        (torch.float64, "contiguous"),
        (torch.float32, "channels_last"),
        (torch.float16, "sliced"),
        (torch.float32, "sliced_channels_last"),
    ],
    ids=str,
)
def test_opcheck(dtype: torch.dtype, layout: str) -> None:
    maps, boxes = sample(dtype)
    maps = LAYOUTS[layout](maps)
    options = (0.9, 2, True)
    torch.library.opcheck(OPS.roi_align, (*leaves(maps, boxes), (2, 3), *options))
    grad = torch.rand(7, 3, 2, 3).to(dtype)
    sizes = list(maps.shape)
    last = "last" in layout
    torch.library.opcheck(
        OPS.roi_align_backward_input, (*leaves(grad, boxes), sizes, *options, last)
    )
    torch.library.opcheck(OPS.roi_align_backward_boxes, (grad, maps, boxes, *options))


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_opcheck_of_maxima(layout: str) -> None:
    maps, boxes = sample()
    maps = LAYOUTS[layout](maps)
    options = (0.9, 2, True)
    torch.library.opcheck(OPS.roi_align_max, (*leaves(maps, boxes), (2, 3), *options))
    values, index = OPS.roi_align_max(maps, boxes, (2, 3), *options)
    sizes = list(maps.shape)
    torch.library.opcheck(OPS.roi_align_max_backward_boxes, (values, index, maps, boxes, *options))
    maps, boxes, grad = leaves(maps, boxes, values)
    torch.library.opcheck(OPS.roi_align_max_at, (maps, index, boxes, (2, 3), *options))
    torch.library.opcheck(
        OPS.roi_align_max_backward_input, (grad, index, boxes, sizes, *options, True)
    )


@pytest.mark.parametrize("last", [False, True])
def test_opcheck_of_pyramids(last: bool) -> None:
    _, boxes = sample()
    maps = [*leaves(*pyramid_of(2, 9, 11, torch.float32))]
    if last:
        maps[0] = channels_last(maps[0].detach()).requires_grad_()
    (boxes,) = leaves(boxes)
    levels = (SCALES, 2, True, 6.0, 1, "detectron2")
    torch.library.opcheck(OPS.multiscale_roi_align, (maps, boxes, (2, 3), *levels))
    grad = torch.rand(7, 3, 2, 3)
    unused = [m.detach() for m in maps], boxes.detach()
    torch.library.opcheck(OPS.multiscale_roi_align_backward_boxes, (grad, *unused, *levels))
    (grad,) = leaves(grad)
    sizes = [9, 11, 4, 5]
    torch.library.opcheck(
        OPS.multiscale_roi_align_backward_input, (grad, boxes, sizes, 2, *levels, [last, False])
    )


@pytest.mark.parametrize("count", [0, 1])
def test_opcheck_of_few(count: int) -> None:
    maps, boxes = leaves(*sample(count=count))
    torch.library.opcheck(OPS.roi_align, (maps, boxes, (2, 2)))
    torch.library.opcheck(OPS.roi_align_max, (maps, boxes, (2, 2), 1.0, -1, False))
    torch.library.opcheck(OPS.multiscale_roi_align, ([maps], boxes, (2, 2), [1.0]))


@pytest.mark.parametrize(
    ("name", "backend"), [*((name, "aot_eager") for name in POOLS), ("pyramid", "eager")]
)
def test_compile(backend: str, name: str) -> None:
    """Forward and backward in one graph each, for any number of boxes and size of maps."""

    def loss(maps: Tensor, boxes: Tensor) -> Tensor:
        return POOLS[name](maps.sin(), boxes * 1.0).square().sum()

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend=backend)
    for i, (count, height) in enumerate(((7, 9), (20, 12), (5, 30))):
        maps, boxes = sample(count=count, height=height)
        with torch._dynamo.config.patch(error_on_recompile=i > 0):
            found = torch.autograd.grad(compiled(*(pair := leaves(maps, boxes))), pair)
        wanted = torch.autograd.grad(loss(*(pair := leaves(maps, boxes))), pair)
        for ours, theirs in zip(found, wanted, strict=True):
            assert same_bits(ours, theirs)


def test_compile_lists_of_boxes() -> None:
    """As detectors pass them; the result has the input's layout."""

    def pool(maps: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return visops.roi_align(maps, [first, second], 3, 0.5) * 2

    torch._dynamo.reset()
    compiled = torch.compile(pool, fullgraph=True, dynamic=True, backend="aot_eager")
    maps, boxes = sample(count=9)
    for layout in (torch.contiguous_format, torch.channels_last):
        laid = maps.contiguous(memory_format=layout)
        for part in (4, 6):
            lists = boxes[:part, 1:], boxes[part:, 1:]
            found = compiled(laid, *lists)
            assert found.is_contiguous(memory_format=layout)
            assert same_bits(found, pool(laid, *lists))


def test_export() -> None:
    class Pool(torch.nn.Module):
        def forward(self, maps: Tensor, boxes: Tensor) -> Tensor:
            return pyramid(maps, boxes)

    maps, boxes = sample()
    count = torch.export.Dim("count", min=2, max=1000)
    program = torch.export.export(Pool(), (maps, boxes), dynamic_shapes=(None, {0: count}))
    for number in (7, 30):
        other = sample(count=number)[1]
        assert same_bits(program.module()(maps, other), pyramid(maps, other))


@every_pool
@pytest.mark.parametrize("in_dims", [(0, None), (2, None), (None, 0), (1, 2), (4, 1)], ids=str)
def test_vmap(in_dims: tuple[int | None, int | None], name: str) -> None:
    pool = POOLS[name]
    maps, boxes = sample()
    several = [(maps + i, boxes * (1 + i / 8)) for i in range(3)]
    for _, own in several:
        own[:, 0] = boxes[:, 0]
    batches = [
        several[0][k] if dim is None else torch.stack([s[k] for s in several], dim)
        for k, dim in enumerate(in_dims)
    ]
    found = torch.vmap(pool, in_dims=in_dims)(*batches)
    for i in range(3):
        own_arguments = [several[0 if dim is None else i][k] for k, dim in enumerate(in_dims)]
        assert same_bits(found[i], pool(*own_arguments))


@every_pool
def test_gradients_of_a_batch(name: str) -> None:
    """By torch.func for each entry; with shared boxes, and with boxes of its own."""
    pool = POOLS[name]
    maps, boxes = sample(torch.float64)
    several = torch.stack([maps + i for i in range(3)])

    def loss(m: Tensor, b: Tensor) -> Tensor:
        return pool(m, b).square().sum()

    both = torch.func.grad(loss, argnums=(0, 1))
    for in_dims in ((0, None), (0, 0)):
        given = boxes if in_dims[1] is None else torch.stack([boxes] * 3)
        found = torch.vmap(both, in_dims=in_dims)(several, given)
        for i in range(3):
            _, of_maps, of_boxes = gradients(pool, several[i], boxes)
            torch.testing.assert_close(found[0][i], of_maps, rtol=0, atol=1e-12)
            torch.testing.assert_close(found[1][i], of_boxes, rtol=0, atol=1e-12)


@every_pool
def test_jacobian(name: str) -> None:
    """torch.func's equals autograd's; second derivatives with respect to maps too."""
    maps, _ = sample(torch.float64, channels=1, height=5)
    boxes = torch.from_numpy(boxes_of("inside", 2))
    pool = POOLS[name]
    found = torch.func.jacrev(pool, argnums=(0, 1))(maps, boxes)
    wanted = torch.autograd.functional.jacobian(pool, (maps, boxes))
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13)

    def total(m: Tensor) -> Tensor:
        return pool(m, boxes).square().sum()

    second = torch.func.jacrev(torch.func.grad(total))(maps)
    hessian = torch.autograd.functional.hessian(total, maps)
    assert float(second.abs().max()) > 0
    torch.testing.assert_close(second, hessian, rtol=0, atol=1e-13)


@every_pool
def test_forward_mode_is_refused(name: str) -> None:
    maps, boxes = sample()
    with pytest.raises(NotImplementedError, match="jvp"):
        torch.func.jvp(lambda m: POOLS[name](m, boxes), (maps,), (maps,))


@every_pool
def test_no_gradient_is_wanted(name: str) -> None:
    pool = POOLS[name]
    maps, boxes = sample()
    expected = pool(maps, boxes)
    maps.requires_grad_()
    with torch.no_grad():
        assert not pool(maps, boxes).requires_grad
    with torch.inference_mode():
        assert same_bits(pool(maps.detach().clone(), boxes), expected)
    assert not pool(maps.detach(), boxes.long().float()).requires_grad
    whole = (maps.detach() * 255).to(torch.uint8)
    assert not visops.roi_align(whole, boxes.requires_grad_(), 2).requires_grad
    _, index = OPS.roi_align_max(maps, boxes, (2, 2), 1.0, 2, True)
    assert not index.requires_grad


@every_pool
def test_autocast(name: str) -> None:
    """Nothing is cast: maps in half precision are computed in float32 anyway."""
    maps, boxes = sample()
    half = maps.to(torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert same_bits(POOLS[name](maps, boxes), POOLS[name](maps, boxes))
        found = POOLS[name](half, boxes)
    assert found.dtype == torch.bfloat16
    assert same_bits(found, POOLS[name](half, boxes))


@every_pool
def test_changed_boxes_are_noticed(name: str) -> None:
    maps, boxes = sample()
    maps.requires_grad_()
    value = POOLS[name](maps, boxes)
    boxes.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.sum().backward()


@every_pool
def test_maps_are_kept_for_the_boxes_only(name: str) -> None:
    """What is linear needs no maps for its gradient: they may change, and need not live on."""
    maps, boxes = sample()
    leaf = maps.clone().requires_grad_()
    used = leaf * 1
    value = POOLS[name](used, boxes)
    used.data.zero_()
    used.detach().add_(1)
    if name != "pyramid":  # its slicing keeps nothing either, but counts versions
        (found,) = torch.autograd.grad(value.sum(), leaf)
        (wanted,) = torch.autograd.grad(POOLS[name](leaf, boxes).sum(), leaf)
        assert same_bits(found, wanted)


@every_pool
def test_fake_tensors(name: str) -> None:
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        maps, boxes = (mode.from_tensor(t.requires_grad_()) for t in sample())
        value = POOLS[name](maps, boxes)
        assert (tuple(value.shape), value.dtype) == ((7, 3, 2, 3), torch.float32)
        found = torch.autograd.grad(value.sum(), (maps, boxes))
        assert [g.shape for g in found] == [maps.shape, boxes.shape]
    meta, meta_boxes = (t.detach().to("meta") for t in sample(torch.float64))
    value = POOLS[name](meta, meta_boxes.float())
    assert (tuple(value.shape), value.dtype, value.is_meta) == ((7, 3, 2, 3), torch.float64, True)
    value = POOLS[name](channels_last(meta), meta_boxes)
    assert value.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.usefixtures("restored_threads")
@every_pool
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_threads_change_nothing(layout: str, name: str) -> None:
    rng = np.random.default_rng(0)
    maps = LAYOUTS[layout](torch.from_numpy(rng.random((2, 40, 30, 33))).float())
    boxes = torch.from_numpy(boxes_of("overhanging", 300, 0.4)).float()
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(gradients(POOLS[name], maps, boxes))
    for other in results[1:]:
        assert all(same_bits(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.cuda
@every_pool
def test_cuda_waits_for_nothing(name: str) -> None:
    maps, boxes = (t.cuda() for t in sample())
    gradients(POOLS[name], maps, boxes)
    torch.cuda.set_sync_debug_mode("error")
    try:
        gradients(POOLS[name], maps, boxes)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.cuda
@every_pool
def test_cuda_skips_bad_boxes(name: str) -> None:
    """Zeros, no gradient, and the others as without them."""
    maps, boxes = (t.cuda() for t in sample())
    bad = boxes[:1].repeat(6, 1)
    bad[0, 0], bad[1, 0], bad[2, 0] = -1, 2, 0.5
    bad[3, 2], bad[4, 3] = float("nan"), float("inf")
    bad[5, 3] = bad[5, 1] - 1
    wanted = gradients(POOLS[name], maps, boxes)
    found = gradients(POOLS[name], maps, torch.cat([boxes[:3], bad, boxes[3:]]))
    good = [0, 1, 2, 9, 10, 11, 12]
    assert same_bits(found[0][good], wanted[0])
    assert same_bits(found[1], wanted[1])
    assert same_bits(found[2][good], wanted[2])
    assert int(found[0][3:9].count_nonzero()) == int(found[2][3:9].count_nonzero()) == 0


@pytest.mark.cuda
@every_pool
def test_cuda_has_the_bits_of_the_cpu(name: str) -> None:
    for layout in ("contiguous", "channels_last"):
        maps, boxes = sample(channels=40, count=60)
        maps = LAYOUTS[layout](maps)
        found = gradients(POOLS[name], maps.cuda(), boxes.cuda())
        for ours, theirs in zip(found, gradients(POOLS[name], maps, boxes), strict=True):
            assert same_bits(ours.cpu(), theirs)
            assert ours.stride() == theirs.stride()


def test_bad_arguments_are_refused_by_name_under_vmap() -> None:
    """Rules compute with sizes and scales before an operator sees them."""
    maps, boxes = torch.zeros(2, 1, 1, 4, 4), torch.tensor([[0.0, 0, 0, 2, 2]])

    def pyramid(level: Tensor) -> Tensor:
        return visops.multiscale_roi_align([level, level], boxes, (2, 2), [math.inf, 0.5])

    def gradient(grad: Tensor) -> Tensor:
        options = (1.0, 2, False, False)
        return torch.ops.visops.roi_align_backward_input(grad, boxes, [4], *options)

    with pytest.raises(RuntimeError, match=r"scales is \[inf, 0\.5\], must be finite and > 0"):
        torch.vmap(pyramid)(maps)
    with pytest.raises(RuntimeError, match=r"input_size is .*, must have four numbers"):
        torch.vmap(gradient)(torch.zeros(2, 1, 1, 2, 2))
