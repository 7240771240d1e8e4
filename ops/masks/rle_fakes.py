"""How the operators on runs run under torch: fake kernels."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .._torch.fakes import dynamic_size, register_fake
from .._torch.registering import add_vmap_rule
from .._torch.vmap_calls import complete_rule, loop_equal_sizes, one_call_each
from .fakes import word_count


@register_fake("masks_to_runs")
def _masks_to_runs(masks: Tensor, width: int = -1) -> tuple[Tensor, Tensor]:
    ends = masks.new_empty(dynamic_size(), dtype=torch.int32)
    return ends, masks.new_empty(masks.shape[0] + 1, dtype=torch.int64)


@register_fake("runs_to_bits")
def _runs_to_bits(ends: Tensor, offsets: Tensor, size: Sequence[int]) -> Tensor:
    height, width = size
    return offsets.new_empty((offsets.shape[0] - 1, height, word_count(width)))


_masks_to_runs_op = torch.ops.visops.masks_to_runs.default
_runs_to_bits_op = torch.ops.visops.runs_to_bits.default
add_vmap_rule("masks_to_runs", loop_equal_sizes(_masks_to_runs_op))
add_vmap_rule("runs_to_bits", complete_rule(_runs_to_bits_op, one_call_each(_runs_to_bits_op)))
