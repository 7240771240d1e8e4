"""How the operators on runs run under torch: fake kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.library import get_ctx

from .._torch.fake_checks import HEIGHT_WIDTH, register_fake, require
from .._torch.registering import add_vmap_rule
from .._torch.vmap_calls import as_many_each, complete_rule, one_call_each

__all__: list[str] = []


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@register_fake("masks_to_runs")
def _masks_to_runs(masks: Tensor, width: int = -1) -> tuple[Tensor, Tensor]:
    start = "visops.masks_to_runs: "
    shape = list(masks.shape)
    require(masks.dim() == 3, f"{start}masks has shape {shape}, must be [N, H, W]")
    if width == -1:
        require(
            masks.dtype in (torch.bool, torch.uint8),
            f"{start}masks has dtype {_name(masks.dtype)}, must be bool or uint8",
        )
    else:
        require(
            masks.dtype == torch.int64,
            f"{start}masks has dtype {_name(masks.dtype)}, must be int64, as pack_masks returns, "
            "where width is given",
        )
        message = (
            f"{start}width is {width}, masks has shape {shape}: its last dimension must be "
            "ceil(width / 64)"
        )
        require(width >= 0, message)
        require((width + 63) // 64 == masks.shape[-1], message)
    ends = masks.new_empty(get_ctx().new_dynamic_size(min=0), dtype=torch.int32)
    return ends, masks.new_empty(masks.shape[0] + 1, dtype=torch.int64)


@register_fake("runs_to_bits", size=HEIGHT_WIDTH)
def _runs_to_bits(ends: Tensor, offsets: Tensor, size: Sequence[int]) -> Tensor:
    start = "visops.runs_to_bits: "
    for name, tensor, dtype in (("ends", ends, torch.int32), ("offsets", offsets, torch.int64)):
        require(
            tensor.dtype == dtype,
            f"{start}{name} has dtype {_name(tensor.dtype)}, must be {_name(dtype)}",
        )
        allowed = "[runs]" if name == "ends" else "[N + 1]"
        message = f"{start}{name} has shape {list(tensor.shape)}, must be {allowed}"
        require(tensor.dim() == 1, message)
        if name == "offsets":
            require(tensor.shape[0] > 0, message)
    for side in size:
        require(side >= 0, f"{start}size is {list(size)}, must be >= 0")
    shape = (offsets.shape[0] - 1, size[0], (size[1] + 63) // 64)
    return offsets.new_empty(shape)


_masks_to_runs_op = torch.ops.visops.masks_to_runs.default
_runs_to_bits_op = torch.ops.visops.runs_to_bits.default
add_vmap_rule("masks_to_runs", as_many_each(_masks_to_runs_op))
add_vmap_rule("runs_to_bits", complete_rule(_runs_to_bits_op, one_call_each(_runs_to_bits_op)))
