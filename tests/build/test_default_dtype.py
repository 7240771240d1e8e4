"""Nothing depends on torch's default dtype, which language models set to bfloat16."""

import pytest
import torch
from fuzz.calls import all_targets, valid_arguments
from fuzz.draws import Draw
from torch import Tensor, nn
from torch.utils import _pytree as pytree

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
