"""Multi-scale deformable attention: the public function, fake kernels, gradients and vmap.

The schema is in csrc/library.cpp, checks of arguments in csrc/torch/deformable/attention.cpp and
csrc/core/deformable/attention.cpp.
"""

import itertools
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.call import call_operator
from .._torch.declaring import operator
from .._torch.numbers import as_index, check_order
from .._torch.unsupported_inputs import require_plain
from .._torch.vmap_calls import into_batch, mapped_first, out_of_batch

# Deformable attention for torch: fake kernels, gradients, vmap.
#
# The attention is linear in `value`. So its gradient with respect to `value` has the attention
# itself as its gradient, and second derivatives are among the same operators.

_NAME = "multi_scale_deformable_attention"


def _attention_fake(
    value: Tensor, shapes: Tensor | None, sizes: Sequence[Any], locations: Tensor, *rest: Any
) -> Tensor:
    batch, _, heads, channels = value.shape
    return value.new_empty((batch, locations.shape[1], heads * channels))


def _backward_value_fake(grad: Tensor, *rest: Any) -> Tensor:
    return grad.new_empty(rest[-1])


def _backward_samples_fake(
    grad: Tensor,
    value: Tensor,
    shapes: Tensor | None,
    sizes: Sequence[Any],
    locations: Tensor,
    weights: Tensor,
    *rest: Any,
) -> tuple[Tensor, Tensor]:
    return (
        torch.empty_like(locations, memory_format=torch.contiguous_format),
        torch.empty_like(weights, memory_format=torch.contiguous_format),
    )


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    value, shapes, ctx.sizes, locations, weights, ctx.points, ctx.method = inputs
    # Linear in value: only the samples' gradient needs it.
    is_needed = ctx.needs_input_grad[3] or ctx.needs_input_grad[4]
    ctx.save_for_backward(shapes, locations, weights, value if is_needed else None)
    ctx.value_size = value.shape


def _gradients(
    ctx: Any, grad: Tensor, value: Tensor | None, *samples: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of locations and weights where they are wanted.

    `samples` are the saved shapes, locations and weights. Non-reentrant checkpoints unpack saved
    tensors once only, so they are passed on.
    """
    if value is None:
        return None, None
    shapes, locations, weights = samples
    of_locations, of_weights = backward_samples(
        grad, value, shapes, ctx.sizes, locations, weights, ctx.points, ctx.method
    )
    has_positions = ctx.method == "default"  # "discrete" rounds locations
    return (
        of_locations if ctx.needs_input_grad[3] and has_positions else None,
        of_weights if ctx.needs_input_grad[4] else None,
    )


def _vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    shapes, locations, weights, value = ctx.saved_tensors
    of_value = None
    if ctx.needs_input_grad[0]:
        of_value = backward_value(
            grad, shapes, ctx.sizes, locations, weights, ctx.points, ctx.method, ctx.value_size
        )
    of_locations, of_weights = _gradients(ctx, grad, value, shapes, locations, weights)
    return of_value, None, None, of_locations, of_weights, None, None


def _backward_value_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, shapes, ctx.sizes, locations, weights, ctx.points, ctx.method, _ = inputs
    is_needed = ctx.needs_input_grad[3] or ctx.needs_input_grad[4]
    ctx.save_for_backward(shapes, locations, weights, grad if is_needed else None)


def _backward_value_vjp(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
    # <u, A^T g> = <A u, g>, so its derivatives are those of the attention to u.
    shapes, locations, weights, grad = ctx.saved_tensors
    of_grad = of_locations = of_weights = None
    if ctx.needs_input_grad[0]:
        of_grad = attention(incoming, shapes, ctx.sizes, locations, weights, ctx.points, ctx.method)
    if grad is not None:
        of_locations, of_weights = _gradients(ctx, grad, incoming, shapes, locations, weights)
    return of_grad, None, None, of_locations, of_weights, None, None, None


def _backward_samples_vjp(ctx: Any, *_: Tensor) -> None:
    raise RuntimeError(
        f"visops.{_NAME}: the gradients with respect to sampling_locations and attention_weights "
        "can't be differentiated again; detach them where that is not needed"
    )


def _reject_mapped_shapes(dim: int | None) -> None:
    if dim is not None:
        raise RuntimeError(f"visops.{_NAME}: spatial_shapes can't be mapped by vmap")


def _attention_vmap(call: Any, info: Any, dims: Any, *arguments: Any) -> tuple[Tensor, int]:
    value, shapes, sizes, locations, weights, *options = arguments
    _reject_mapped_shapes(dims[1])
    entries = info.batch_size
    if dims[0] is None:  # the entries' queries attend to the same values
        locations = mapped_first(locations, dims[3], entries).movedim(0, 1).flatten(1, 2)
        weights = mapped_first(weights, dims[4], entries).movedim(0, 1).flatten(1, 2)
        found = call(value, shapes, sizes, locations, weights, *options)
        queries = found.shape[1] // entries
        return found.reshape(found.shape[0], entries, queries, found.shape[2]), 1
    value, locations, weights = (
        into_batch(tensor, dims[i], entries)
        for i, tensor in ((0, value), (3, locations), (4, weights))
    )
    return out_of_batch(call(value, shapes, sizes, locations, weights, *options), entries), 0


def _backward_value_vmap(call: Any, info: Any, dims: Any, *arguments: Any) -> tuple[Tensor, int]:
    grad, shapes, sizes, locations, weights, *options, value_size = arguments
    _reject_mapped_shapes(dims[1])
    grad, locations, weights = (
        into_batch(tensor, dims[i], info.batch_size)
        for i, tensor in ((0, grad), (3, locations), (4, weights))
    )
    size = [info.batch_size * value_size[0], *value_size[1:]]
    found = call(grad, shapes, sizes, locations, weights, *options, size)
    return out_of_batch(found, info.batch_size), 0


def _backward_samples_vmap(
    call: Any, info: Any, dims: Any, *arguments: Any
) -> tuple[Any, tuple[int, int]]:
    grad, value, shapes, sizes, locations, weights, *options = arguments
    _reject_mapped_shapes(dims[2])
    tensors = zip((grad, value, locations, weights), (*dims[:2], *dims[4:6]), strict=True)
    grad, value, locations, weights = (
        into_batch(tensor, dim, info.batch_size) for tensor, dim in tensors
    )
    found = call(grad, value, shapes, sizes, locations, weights, *options)
    return tuple(out_of_batch(part, info.batch_size) for part in found), (0, 0)


def _constants(inputs: Sequence[Any]) -> tuple[str, ...]:
    return () if inputs[6] == "default" else ("sampling_locations",)


attention = operator(
    _NAME,
    fake=_attention_fake,
    setup_context=_setup,
    backward=_vjp,
    vmap=_attention_vmap,
    constants=_constants,
    onnx="deformable",
)
backward_value = operator(
    f"{_NAME}_backward_value",
    fake=_backward_value_fake,
    setup_context=_backward_value_setup,
    backward=_backward_value_vjp,
    vmap=_backward_value_vmap,
    constants=_constants,
)
backward_samples = operator(
    f"{_NAME}_backward_samples",
    fake=_backward_samples_fake,
    backward=_backward_samples_vjp,
    vmap=_backward_samples_vmap,
)


Array = TypeVar("Array", Tensor, np.ndarray)
_Device = torch.device | str | None
_OP = "multi_scale_deformable_attention"


def multi_scale_deformable_attention(
    value: Array,
    spatial_shapes: Sequence[tuple[int, int]] | Tensor | np.ndarray,
    sampling_locations: Array,
    attention_weights: Array,
    *,
    level_start_index: Sequence[int] | Tensor | np.ndarray | None = None,
    method: Literal["default", "discrete"] = "default",
    num_points_list: Sequence[int] | None = None,
    device: _Device = None,
) -> Array:
    r"""Attend to a few sampled locations of each level: the attention of Deformable DETR.

    A query's result is, for each head, the weighted sum of samples of that head's values:

    .. math:: \sum_{l,p} a_{lp} \, V_l(u_{lp} W_l - \tfrac12,\ v_{lp} H_l - \tfrac12)

    where :math:`V_l` interpolates bilinearly between pixel centres at integers, and is 0 outside
    the map: ``grid_sample(..., padding_mode="zeros", align_corners=False)`` at
    ``2 * location - 1``. Samples are added up as they are read and never stored. Sums are float32
    (float64 for float64) and rounded once. Results are bit-identical on every instruction set, at
    every thread count, and on CPU and CUDA; so are gradients.

    Parameters
    ----------
    value : Tensor or ndarray ``[B, S, h, d]``
        The levels' pixels one level after another, row by row, in h heads of d channels. float16,
        bfloat16, float32 or float64. Read in place where channels are adjacent.
    spatial_shapes : sequence of L pairs, or Tensor or ndarray ``[L, 2]`` of int64 or int32
        Height and width of each level; their areas sum to S. Pass integers if you have them: they
        are checked on every device. A tensor on CUDA is not read by the host, which would
        synchronize, so its values are not checked: a level that does not fit into `value` adds
        nothing. At most 32 levels.
    sampling_locations : Tensor or ndarray ``[B, Q, h, L, P, 2]``
        x and y of P samples for each level, in units of the map: (0, 0) and (1, 1) are its outer
        corners. Any floating type up to float32; float64 for float64 values. Keep float32 beside
        half-precision values: bfloat16 locations are up to 1/256 of the map apart.
    attention_weights : Tensor or ndarray ``[B, Q, h, L, P]``
        Any weights; networks normalise them over L and P. Dtypes as for `sampling_locations`.
    level_start_index : sequence of L integers, Tensor or ndarray, optional
        Where each level starts in `value`. Levels always lie one after another, so it is not
        needed; if its numbers are on the host, they are checked.
    method : {"default", "discrete"}
        "discrete" reads the nearest pixel, clamped to the map, as RT-DETRv2's method of the same
        name does: pixel ``floor(location * size + 0.5)``. Locations have no gradient then.
    num_points_list : sequence of L integers, optional
        Numbers of samples that differ between levels. `sampling_locations` is
        ``[B, Q, h, sum(num_points_list), 2]`` then, and `attention_weights` has the same shape
        without the last dimension.
    device : optional
        For arrays: where to compute. Arrays are copied there, and the result back.

    Returns
    -------
    Tensor or ndarray ``[B, Q, h * d]``
        The dtype is that of `value`.

    Raises
    ------
    RuntimeError, TypeError, ValueError
        For wrong shapes, dtypes, devices and sizes. Samples whose location is not finite have no
        weight and no gradient.

    Notes
    -----
    Differentiable with respect to `value`, `sampling_locations` and `attention_weights`. The
    gradient of `value` can be differentiated again; that of the others can't. Gradients are sums in
    a fixed order without atomics, hence deterministic.

    Zhu et al., "Deformable DETR: Deformable Transformers for End-to-End Object Detection", 2021;
    for `method` and `num_points_list`, Lv et al., "RT-DETRv2", 2024.

    Examples
    --------
    >>> import torch, visops
    >>> value = torch.arange(10.0).reshape(1, 10, 1, 1)  # levels of 2 x 4 and 1 x 2
    >>> locations = torch.tensor([[0.25, 0.5], [0.5, 0.5]]).reshape(1, 1, 1, 2, 1, 2)
    >>> weights = torch.tensor([0.5, 0.5]).reshape(1, 1, 1, 2, 1)
    >>> shapes = [(2, 4), (1, 2)]
    >>> visops.multi_scale_deformable_attention(value, shapes, locations, weights)
    tensor([[[5.5000]]])
    """
    levels = _levels(spatial_shapes, level_start_index)

    def call(value: Tensor, locations: Tensor, weights: Tensor) -> Any:
        return attention(value, *_samples(*levels, locations, weights, num_points_list), method)

    tensors = {
        "value": value,
        "sampling_locations": sampling_locations,
        "attention_weights": attention_weights,
    }
    return call_operator(_OP, call, device, tensors)  # type: ignore[no-any-return]


def attention_gradients(
    value: Tensor,
    spatial_shapes: Any,
    level_start_index: Any,
    locations: Tensor,
    weights: Tensor,
    grad: Tensor,
) -> list[Tensor]:
    """Return the gradients of value, locations and weights for that of the result."""
    tensors = {"value": value, "sampling_locations": locations, "attention_weights": weights}
    require_plain(_OP, **tensors, grad=grad)
    given = _samples(*_levels(spatial_shapes, level_start_index), locations, weights, None)
    with torch.no_grad():
        of_locations, of_weights = backward_samples(grad, value, *given, "default")
        of_value = backward_value(grad, *given, "default", value.shape)
    return [of_value, of_locations.view_as(locations), of_weights.view_as(weights)]


def _levels(spatial_shapes: Any, starts: Any) -> tuple[Tensor | None, list[Any]]:
    """Return the levels' shapes as operators take them: a tensor, or all sizes in a list."""
    require_plain(_OP, spatial_shapes=spatial_shapes, level_start_index=starts)
    if isinstance(spatial_shapes, np.ndarray):
        spatial_shapes = spatial_shapes.tolist()
    shapes = spatial_shapes if isinstance(spatial_shapes, Tensor) else None
    sizes = [] if isinstance(spatial_shapes, Tensor) else _pairs(spatial_shapes)
    _check_starts(starts, shapes, sizes)
    return shapes, sizes


def _samples(
    shapes: Tensor | None,
    sizes: list[Any],
    locations: Tensor,
    weights: Tensor,
    num_points_list: Sequence[int] | None,
) -> tuple[Tensor | None, list[Any], Tensor, Tensor, list[Any]]:
    """Return levels and samples as operators take them, a query's samples in one dimension."""
    points = _points(locations, weights, _level_count(shapes, sizes), num_points_list)
    if num_points_list is None:
        locations, weights = locations.flatten(3, 4), weights.flatten(3, 4)
    return shapes, sizes, locations, weights, points


def _pairs(spatial_shapes: Any) -> list[Any]:
    """Return the numbers of all pairs."""
    try:
        pairs = [[as_index(side) for side in pair] for pair in spatial_shapes]
    except TypeError:
        pairs = [[]]
    if any(len(pair) != 2 for pair in pairs):
        raise TypeError(
            f"visops.{_OP}: spatial_shapes is {spatial_shapes!r}, must be a (height, width) for "
            "each level, or a tensor [L, 2]"
        )
    return [side for pair in pairs for side in pair]


def _level_count(shapes: Tensor | None, sizes: Sequence[Any]) -> int:
    if shapes is None:
        return len(sizes) // 2
    if shapes.dim() != 2:
        raise RuntimeError(
            f"visops.{_OP}: spatial_shapes has shape {list(shapes.shape)}, must be [L, 2]"
        )
    return shapes.shape[0]


def _points(
    locations: Tensor, weights: Tensor, levels: int, num_points_list: Sequence[int] | None
) -> list[Any]:
    """Return the number of samples on each level, and check where that is in the shapes."""
    if num_points_list is None:
        if locations.dim() != 6 or locations.shape[3] != levels or locations.shape[5] != 2:
            allowed = f"[B, Q, h, {levels}, P, 2]"
            raise RuntimeError(
                f"visops.{_OP}: sampling_locations has shape {list(locations.shape)}, must be "
                f"{allowed}"
            )
        points = [locations.shape[4]] * levels
    else:
        check_order(_OP, "num_points_list", num_points_list, "an integer for each level")
        try:
            points = [as_index(count) for count in num_points_list]
        except TypeError:
            raise TypeError(
                f"visops.{_OP}: num_points_list is {num_points_list!r}, must be an integer for "
                "each level"
            ) from None
        if len(points) != levels:
            raise RuntimeError(
                f"visops.{_OP}: num_points_list has {len(points)} numbers, must have one for each "
                f"of {levels} levels"
            )
        if locations.dim() != 5 or locations.shape[4] != 2:
            raise RuntimeError(
                f"visops.{_OP}: sampling_locations has shape {list(locations.shape)}, must be "
                f"[B, Q, h, {sum(points)}, 2] with num_points_list"
            )
    if weights.shape != locations.shape[:-1]:
        raise RuntimeError(
            f"visops.{_OP}: attention_weights has shape {list(weights.shape)}, must be "
            f"{list(locations.shape[:-1])}"
        )
    return points


def _check_starts(starts: Any, shapes: Tensor | None, sizes: list[Any]) -> None:
    """Check where levels start if all numbers are on the host, without waiting for a device."""
    if starts is None or torch.compiler.is_compiling():
        return
    check_order(_OP, "level_start_index", starts, "where each level starts in value")
    given, rows = _numbers(starts), sizes if shapes is None else _numbers(shapes)
    if given is None or rows is None:
        return
    areas = [h * w for h, w in zip(rows[::2], rows[1::2], strict=False)]
    expected = list(itertools.accumulate(areas, initial=0))[:-1]
    if given != expected:
        raise ValueError(
            f"visops.{_OP}: level_start_index is {given}, must be {expected}: levels lie one after "
            "another"
        )


def _numbers(values: Any) -> list[Any] | None:
    """Return all numbers, or None where they are on a device or no numbers at all."""
    if isinstance(values, Tensor):
        return values.flatten().tolist() if type(values) is Tensor and values.is_cpu else None
    return np.asarray(values).ravel().tolist() if isinstance(values, np.ndarray) else list(values)
