"""Deformable attention under the names of mmcv and of Deformable DETR's extension."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..deformable.attention import attention_gradients, multi_scale_deformable_attention
from ..deformable.attention_module import MultiScaleDeformableAttention


def multi_scale_deformable_attn_pytorch(
    value: Tensor,
    value_spatial_shapes: Tensor | Sequence[tuple[int, int]],
    sampling_locations: Tensor,
    attention_weights: Tensor,
) -> Tensor:
    """Attend as mmcv's function does: :func:`visops.multi_scale_deformable_attention`.

    Parameters
    ----------
    value : Tensor ``[B, S, h, d]``
    value_spatial_shapes : Tensor ``[L, 2]`` or pairs
        Height and width of each level.
    sampling_locations : Tensor ``[B, Q, h, L, P, 2]``
    attention_weights : Tensor ``[B, Q, h, L, P]``

    Returns
    -------
    Tensor ``[B, Q, h * d]``

    Raises
    ------
    RuntimeError, TypeError
        As the function.

    Examples
    --------
    >>> import torch
    >>> from visops import compat
    >>> points, weights = torch.full((1, 1, 1, 1, 1, 2), 0.5), torch.ones(1, 1, 1, 1, 1)
    >>> value = torch.arange(4.0).reshape(1, 4, 1, 1)
    >>> compat.multi_scale_deformable_attn_pytorch(value, torch.tensor([[2, 2]]), points, weights)
    tensor([[[1.5000]]])
    """
    found: Tensor = multi_scale_deformable_attention(
        value, value_spatial_shapes, sampling_locations, attention_weights
    )
    return found


def ms_deform_attn_forward(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_loc: Tensor,
    attn_weight: Tensor,
    im2col_step: int = 64,
) -> Tensor:
    """Attend as the extension's function does, without a gradient.

    Arguments are those of :func:`multi_scale_deformable_attn_pytorch`, and where levels start.
    `im2col_step` is ignored: any batch is one call.

    Examples
    --------
    >>> import torch
    >>> from visops import compat
    >>> points, weights = torch.full((1, 1, 1, 1, 1, 2), 0.5), torch.ones(1, 1, 1, 1, 1)
    >>> value, shapes = torch.arange(4.0).reshape(1, 4, 1, 1), torch.tensor([[2, 2]])
    >>> compat.ms_deform_attn_forward(value, shapes, torch.tensor([0]), points, weights, 64)
    tensor([[[1.5000]]])
    """
    with torch.no_grad():
        found: Tensor = multi_scale_deformable_attention(
            value, spatial_shapes, sampling_loc, attn_weight, level_start_index=level_start_index
        )
    return found


def ms_deform_attn_backward(
    value: Tensor,
    spatial_shapes: Tensor,
    level_start_index: Tensor,
    sampling_loc: Tensor,
    attn_weight: Tensor,
    grad_output: Tensor,
    im2col_step: int = 64,
) -> list[Tensor]:
    """Return the gradients, as the extension's function does.

    They are those of `value`, `sampling_loc` and `attn_weight` for the gradient
    `grad_output` ``[B, Q, h * d]`` of the result. `im2col_step` is ignored.

    Examples
    --------
    >>> import torch
    >>> from visops import compat
    >>> points, weights = torch.full((1, 1, 1, 1, 1, 2), 0.5), torch.ones(1, 1, 1, 1, 1)
    >>> value, shapes = torch.arange(4.0).reshape(1, 4, 1, 1), torch.tensor([[2, 2]])
    >>> grad = torch.ones(1, 1, 1)
    >>> found = compat.ms_deform_attn_backward(
    ...     value, shapes, torch.tensor([0]), points, weights, grad
    ... )
    >>> found[0].flatten()
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    given = {
        "value": value,
        "sampling_loc": sampling_loc,
        "attn_weight": attn_weight,
        "grad_output": grad_output,
    }
    for name, tensor in given.items():
        kind = type(tensor).__name__
        if isinstance(tensor, Tensor):
            if tensor.is_floating_point():
                continue
            kind = f"tensor of {tensor.dtype}"
        raise TypeError(
            f"visops.compat.ms_deform_attn_backward: {name} is a {kind}, "
            "must be a floating-point torch.Tensor"
        )
    return attention_gradients(
        value, spatial_shapes, level_start_index, sampling_loc, attn_weight, grad_output
    )


class MultiScaleDeformableAttnFunction:
    """mmcv's autograd function of this name (Deformable DETR's ``MSDeformAttnFunction``).

    Examples
    --------
    >>> import torch
    >>> from visops import compat
    >>> points, weights = torch.full((1, 1, 1, 1, 1, 2), 0.5), torch.ones(1, 1, 1, 1, 1)
    >>> value, shapes = torch.arange(4.0).reshape(1, 4, 1, 1), torch.tensor([[2, 2]])
    >>> starts = torch.tensor([0])
    >>> compat.MultiScaleDeformableAttnFunction.apply(value, shapes, starts, points, weights, 64)
    tensor([[[1.5000]]])
    """

    @staticmethod
    def apply(
        value: Tensor,
        value_spatial_shapes: Tensor,
        value_level_start_index: Tensor,
        sampling_locations: Tensor,
        attention_weights: Tensor,
        im2col_step: int = 64,
    ) -> Tensor:
        """Return the result, with gradients. `im2col_step` is ignored."""
        found: Tensor = multi_scale_deformable_attention(
            value,
            value_spatial_shapes,
            sampling_locations,
            attention_weights,
            level_start_index=value_level_start_index,
        )
        return found


class MSDeformAttn(MultiScaleDeformableAttention):
    """Deformable DETR's layer: :class:`visops.MultiScaleDeformableAttention` with its arguments.

    Parameters
    ----------
    d_model, n_levels, n_heads, n_points : int
        Channels, levels, heads, and samples of a head on each level.

    Examples
    --------
    >>> from visops import compat
    >>> compat.MSDeformAttn(256, 4, 8, 4).value_proj
    Linear(in_features=256, out_features=256, bias=True)
    """

    def __init__(
        self, d_model: int = 256, n_levels: int = 4, n_heads: int = 8, n_points: int = 4
    ) -> None:
        super().__init__(d_model, n_heads, n_levels, n_points)

    def forward(
        self,
        query: Tensor,
        reference_points: Tensor,
        input_flatten: Tensor,
        input_spatial_shapes: Any,
        input_level_start_index: Any = None,
        input_padding_mask: Tensor | None = None,
    ) -> Tensor:
        """Attend, as the class it derives from does."""
        return super().forward(
            query,
            reference_points,
            input_flatten,
            input_spatial_shapes,
            input_level_start_index,
            input_padding_mask,
        )
