"""What the laws share: results with gradients, layouts of tensors, equal bits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
import torch.fx.experimental._config
from operators import CASES
from operators.case import Arguments, OpCase
from torch import Tensor
from torch.utils import _pytree as pytree


def every_case(*, only: Callable[[OpCase], Any] = lambda case: True) -> pytest.MarkDecorator:
    """Run a test for each operator's case that the law is about."""
    return pytest.mark.parametrize("case", [case for case in CASES if only(case)], ids=str)


def map_tensors(change: Callable[[Tensor], Any], arguments: Arguments) -> Arguments:
    """Change every tensor, also in lists."""
    return pytree.tree_map(lambda v: change(v) if isinstance(v, Tensor) else v, arguments)


def tensors_of(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def same_bits(found: Tensor, expected: Tensor) -> bool:
    """Also signs of zeros; all NaNs are one."""
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return False
    if found.is_complex():
        found, expected = torch.view_as_real(found), torch.view_as_real(expected)
    if not found.is_floating_point():
        return torch.equal(found, expected)
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[found.element_size()]
    pair = (torch.where(t.isnan(), torch.nan, t).contiguous() for t in (found, expected))
    return torch.equal(*(t.view(whole) for t in pair))


def assert_same(case: OpCase, found: list[Tensor], expected: list[Tensor]) -> None:
    """The same bits, or nearly the same numbers where a matrix product is involved."""
    assert len(found) == len(expected)
    for ours, wanted in zip(found, expected, strict=True):
        if case.exact and not case.composed:
            assert same_bits(ours, wanted)
        else:
            near = {torch.float64: 1e-12, torch.float32: 1e-4}.get(wanted.dtype, 2e-2)
            torch.testing.assert_close(ours, wanted, rtol=near, atol=near, equal_nan=True)


def strided(tensor: Tensor) -> Tensor:
    """Return a view with another number between any two."""
    return torch.stack([tensor, torch.full_like(tensor, 3)], -1)[..., 0]


def transposed(tensor: Tensor) -> Tensor:
    return tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor


def offset(tensor: Tensor) -> Tensor:
    """Return a view within a larger tensor, which is wider in its first and last dimension."""
    if not tensor.dim():
        return tensor
    if tensor.dim() == 1:
        return tensor.new_full((len(tensor) + 5,), 3)[1 : len(tensor) + 1].copy_(tensor)
    sizes = list(tensor.shape)
    sizes[0] += 2
    sizes[-1] += 3
    view = tensor.new_full(sizes, 3)[1:, ..., 1:]
    view = view[: tensor.shape[0], ..., : tensor.shape[-1]]
    return view.copy_(tensor)


def channels_last(tensor: Tensor) -> Tensor:
    last = torch.channels_last
    return tensor.contiguous(memory_format=last) if tensor.dim() == 4 else tensor


def part_of_channels_last(tensor: Tensor) -> Tensor:
    """Return some channels of more, whose pixels lie side by side; opcheck copies no empty ones."""
    if tensor.dim() != 4 or not tensor.numel():
        return tensor
    batch, channels, height, width = tensor.shape
    wide = channels_last(tensor.new_full((batch, channels + 3, height, width + 2), 3))
    return wide[:, 2 : 2 + channels, :, 1:-1].copy_(tensor)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "strided": strided,
    "transposed": transposed,
    "offset": offset,
    "channels_last": channels_last,
    "part_of_channels_last": part_of_channels_last,
}


def read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def foreign(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder(">"))


def unaligned(array: np.ndarray) -> np.ndarray:
    data = np.zeros(array.nbytes + 1, np.uint8)
    shifted = data[1:].view(array.dtype).reshape(array.shape)
    shifted[...] = array
    return shifted


def field_of_records(array: np.ndarray) -> np.ndarray:
    """Strides are not multiples of the element size."""
    records = np.zeros(array.shape, np.dtype([("value", array.dtype), ("tag", np.uint8)]))
    records["value"] = array
    return records["value"]  # type: ignore[no-any-return]


def reversed_in_all(array: np.ndarray) -> np.ndarray:
    """Tensors have no negative strides."""
    return np.flip(np.flip(array).copy())


ARRAYS = (
    *(np.copy, read_only, np.asfortranarray, foreign, unaligned, field_of_records),
    *(reversed_in_all, lambda array: read_only(reversed_in_all(foreign(array)))),
)


@contextmanager
def sizes_of_values() -> Iterator[None]:
    """Let torch.compile take operators whose number of results depends on values.

    Sizes that happen to be equal in the first call may differ in the next.
    """
    config, shapes = torch._dynamo.config, torch.fx.experimental._config
    values = config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True)
    with values, shapes.patch(use_duck_shape=False):  # type: ignore[attr-defined]
        yield
