"""RoIAlign within torch: opcheck, compile, vmap, torch.func, fake tensors, autocast, threads."""

import math
from collections.abc import Callable

import pytest
import torch
import visops
from torch import Tensor

from roi.align_cases import boxes_of, maps_of, same_bits

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
