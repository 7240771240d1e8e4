"""Samples at points, and uncertain points: public functions, fake kernels, gradients and vmap.

The schema is in csrc/library.cpp, checks of arguments in csrc/torch/deformable/points.cpp and
csrc/core/deformable/points.cpp.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.call import call_operator
from .._torch.declaring import operator
from .._torch.fakes import contiguous_like, holds, is_contiguous, prefers_channels_last
from .._torch.numbers import as_index, real_number
from .._torch.options import check_word, flag
from .._torch.unsupported_inputs import require_plain, require_tensors
from .._torch.vmap_calls import into_batch, out_of_batch

# Point samples for torch: fake kernels, gradients, vmap.
#
# Samples are linear in `input`. So their gradient with respect to it has the sampling itself as its
# gradient, and second derivatives are among the same operators.

_NAME = "point_sample"


def _sample_fake(input: Tensor, points: Tensor, *options: Any) -> Tensor:
    batch, channels, count = input.shape[0], input.shape[1], points.shape[1]
    dtype = input.dtype if input.is_floating_point() else torch.float32
    if prefers_channels_last(input):
        return input.new_empty((batch, count, channels), dtype=dtype).transpose(1, 2)
    return input.new_empty((batch, channels, count), dtype=dtype)


def _backward_input_fake(
    grad: Tensor, points: Tensor, input_size: Sequence[Any], *options: Any
) -> Tensor:
    return grad.new_empty(input_size)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, points, *ctx.options = inputs
    # Linear in input: only the points' gradient needs it.
    ctx.save_for_backward(points, input if ctx.needs_input_grad[1] else None)
    ctx.input_size = input.shape


def _of_points(ctx: Any, grad: Tensor, input: Tensor | None, points: Tensor) -> Tensor | None:
    if input is None or ctx.options[0] == "nearest":  # "nearest" rounds points
        return None
    found: Tensor = backward_points(grad, input, points, *ctx.options)
    return found


def _vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    points, input = ctx.saved_tensors
    of_input = None
    if ctx.needs_input_grad[0]:
        of_input = backward_input(grad, points, ctx.input_size, *ctx.options)
    return of_input, _of_points(ctx, grad, input, points), None, None, None


def _backward_input_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, points, _, *ctx.options = inputs
    ctx.save_for_backward(points, grad if ctx.needs_input_grad[1] else None)


def _backward_input_vjp(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
    # <u, A^T g> = <A u, g>, so its derivatives are those of the samples of u.
    points, grad = ctx.saved_tensors
    of_grad = sample(incoming, points, *ctx.options) if ctx.needs_input_grad[0] else None
    of_points = None if grad is None else _of_points(ctx, grad, incoming, points)
    return of_grad, of_points, None, None, None, None


def _backward_points_vjp(ctx: Any, *_: Tensor) -> None:
    raise RuntimeError(
        f"visops.{_NAME}: the gradient with respect to points can't be differentiated again; "
        "detach them where that is not needed"
    )


def _sample_vmap(call: Any, info: Any, dims: Any, *arguments: Any) -> tuple[Tensor, int]:
    input, points, *options = arguments
    entries = info.batch_size
    if dims[0] is None:  # other points of the same maps
        points = points.movedim(dims[1], 1)
        found = call(input, points.flatten(1, 2), *options)
        return found.reshape(*found.shape[:2], entries, points.shape[2]), 2
    if dims[1] is None:  # the same points of other maps
        input = input.movedim(dims[0], 1)
        found = call(input.flatten(1, 2), points, *options)
        return found.reshape(found.shape[0], entries, input.shape[2], found.shape[2]), 1
    input, points = (into_batch(arguments[i], dims[i], entries) for i in range(2))
    return out_of_batch(call(input, points, *options), entries), 0


def _backward_input_vmap(call: Any, info: Any, dims: Any, *arguments: Any) -> tuple[Tensor, int]:
    input_size, *options = arguments[2:]
    grad, points = (into_batch(arguments[i], dims[i], info.batch_size) for i in range(2))
    size = [info.batch_size * input_size[0], *input_size[1:]]
    return out_of_batch(call(grad, points, size, *options), info.batch_size), 0


def _backward_points_vmap(call: Any, info: Any, dims: Any, *arguments: Any) -> tuple[Tensor, int]:
    tensors = [into_batch(arguments[i], dims[i], info.batch_size) for i in range(3)]
    return out_of_batch(call(*tensors, *arguments[3:]), info.batch_size), 0


def _constants(mode: str) -> tuple[str, ...]:
    return ("points",) if mode == "nearest" else ()


sample = operator(
    _NAME,
    fake=_sample_fake,
    setup_context=_setup,
    backward=_vjp,
    vmap=_sample_vmap,
    constants=lambda inputs: _constants(inputs[2]),
    onnx="deformable",
)
backward_input = operator(
    f"{_NAME}_backward_input",
    fake=_backward_input_fake,
    setup_context=_backward_input_setup,
    backward=_backward_input_vjp,
    vmap=_backward_input_vmap,
    constants=lambda inputs: _constants(inputs[3]),
)
backward_points = operator(
    f"{_NAME}_backward_points",
    fake=contiguous_like(2),
    backward=_backward_points_vjp,
    vmap=_backward_points_vmap,
)


Array = TypeVar("Array", Tensor, np.ndarray)
_Device = torch.device | str | None
_OP = "point_sample"


def point_sample(
    input: Array,
    points: Array,
    *,
    mode: Literal["bilinear", "nearest"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
    device: _Device = None,
) -> Array:
    """Sample maps at points: PointRend's and Mask2Former's function of this name.

    The result is that of ``torch.nn.functional.grid_sample`` at ``2 * points - 1``, to a few units
    in the last place of a coordinate: it is not rounded on its way to [-1, 1] and back. Masks are
    read as they are and need no copy in float32. Results are bit-identical on every instruction
    set, at every thread count, and on CPU and CUDA; so are gradients.

    Parameters
    ----------
    input : Tensor or ndarray ``[B, C, H, W]``
        Maps of at least one pixel: float16, bfloat16, float32 or float64, or masks of bool or
        uint8. Read in place where columns or channels are adjacent.
    points : Tensor or ndarray ``[B, ..., 2]`` or ``[1, ..., 2]``
        x and y in units of the map: (0, 0) and (1, 1) are its outer corners (with `align_corners`,
        the centres of its corner pixels). One set of points may serve all images; that is faster
        than repeating it. Any floating type up to float32; float64 for float64 maps. Keep float32
        beside half-precision maps: bfloat16 points are up to 1/256 of the map apart.
    mode : {"bilinear", "nearest"}
        "nearest" rounds half to even, as `grid_sample` does; points have no gradient then.
    padding_mode : {"zeros", "border", "reflection"}
        What lies outside: zeros; the nearest pixel of the border; the map mirrored at its outer
        corners (with `align_corners`, at the centres of the border's pixels).
    align_corners : bool
        What (0, 0) and (1, 1) mean, as above.
    device : optional
        For arrays: where to compute. Arrays are copied there, and the result back.

    Returns
    -------
    Tensor or ndarray ``[B, C, ...]``
        The dtype is that of `input`; float32 for masks. Channels are adjacent where they are in a
        channels_last `input`.

    Raises
    ------
    RuntimeError, TypeError, ValueError
        For wrong shapes, dtypes, devices, modes, and maps without pixels. A point that is NaN or
        infinite gives 0 and has no gradient, whatever the padding.

    Notes
    -----
    Differentiable with respect to `input` and `points`. The gradient of `input` can be
    differentiated again; that of `points` can't. Gradients are sums in a fixed order without
    atomics, hence deterministic. For `mode="bicubic"` use `grid_sample`.

    Kirillov et al., "PointRend: Image Segmentation as Rendering", 2020
    (``detectron2/projects/PointRend/point_rend/point_features.py``).

    Examples
    --------
    >>> import torch, visops
    >>> mask = torch.tensor([[[[False, True], [False, True]]]])
    >>> points = torch.tensor([[[0.5, 0.5], [0.75, 0.25], [0.3, 0.5]]])
    >>> visops.point_sample(mask, points)
    tensor([[[0.5000, 1.0000, 0.1000]]])
    """
    tensors = {"input": input, "points": points}
    options = (mode, padding_mode, flag(_OP, "align_corners", align_corners))
    return call_operator(_OP, _sample, device, tensors, *options)  # type: ignore[no-any-return]


def _sample(input: Tensor, points: Tensor, *options: Any) -> Tensor:
    if input.dim() != 4 or points.dim() < 3:
        allowed = "input must be [B, C, H, W], points [B, ..., 2]"
        raise RuntimeError(
            f"visops.{_OP}: input has shape {list(input.shape)}, points has {list(points.shape)}; "
            f"{allowed}"
        )
    batch, channels = input.shape[:2]
    size, points = points.shape[1:-1], points if points.dim() == 3 else points.flatten(1, -2)
    if holds(points.shape[0] == 1) and not holds(batch == 1):
        if is_contiguous(input):  # all maps are channels of one image
            found = sample(input.reshape(1, batch * channels, *input.shape[2:]), points, *options)
            return found.reshape(batch, channels, *size)  # type: ignore[no-any-return]
        points = points.expand(batch, -1, -1)
    found = sample(input, points, *options)
    return found if len(size) == 1 else found.unflatten(2, size)  # type: ignore[no-any-return]


_UNCERTAINTIES = ("logit", "margin")


def sample_points_by_uncertainty(
    logits: Tensor,
    num_points: int,
    *,
    oversample_ratio: float = 3.0,
    importance_sample_ratio: float = 0.75,
    uncertainty: Literal["logit", "margin"] = "logit",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw points for a loss, most of them where the prediction is uncertain, as PointRend does.

    ``int(num_points * oversample_ratio)`` random points are drawn for each image. The
    ``int(importance_sample_ratio * num_points)`` most uncertain of them are kept; the rest of
    `num_points` are random again.

    Parameters
    ----------
    logits : Tensor ``[B, C, H, W]``
        Predictions: float16, bfloat16, float32 or float64. No gradient is recorded.
    num_points : int
        How many points an image gets.
    oversample_ratio : float
        At least 1: how many points are tried for each one that is wanted.
    importance_sample_ratio : float
        From 0 to 1: the share of points that are chosen by their uncertainty.
    uncertainty : {"logit", "margin"}
        "logit" is ``-abs(logit)`` for a single channel, as for masks. "margin" is the second
        highest of at least two channels' logits less the highest, as for classes of pixels. Where a
        mask has a channel for each class, pass that of its class:
        ``logits[torch.arange(B), classes][:, None]``.
    generator : torch.Generator, optional
        Where random numbers come from; torch's default generator of the device otherwise.

    Returns
    -------
    Tensor ``[B, num_points, 2]``
        x and y in 0 to 1, as `point_sample` takes them: float32, or float64 for float64 logits.
        First the uncertain points, the most uncertain first and equal ones in the order in which
        they were drawn; NaN counts as most uncertain. Then the random ones.

    Raises
    ------
    RuntimeError, TypeError, ValueError
        For wrong shapes and dtypes, and numbers outside their range.

    Notes
    -----
    Exactly two tensors are drawn, with ``torch.rand``: ``[B, int(num_points * oversample_ratio),
    2]``, and after it the random points, ``[B, random, 2]``; the latter only where there are any.
    Both have the dtype of the result. That is what detectron2's
    ``get_uncertain_point_coords_with_randomness`` draws, so from the same state of the generator
    the points are the same (two points whose uncertainties are equal up to rounding may change
    positions).

    Examples
    --------
    >>> import torch, visops
    >>> logits = torch.linspace(-4, 4, 64).repeat(1, 1, 64, 1)  # the edge is in the middle
    >>> generator = torch.Generator().manual_seed(0)
    >>> points = visops.sample_points_by_uncertainty(
    ...     logits, 8, importance_sample_ratio=1.0, generator=generator
    ... )
    >>> bool(((points[..., 0] - 0.5).abs() < 0.25).all())
    True
    """
    op = "sample_points_by_uncertainty"
    tried, uncertain, spread = _counts(op, num_points, oversample_ratio, importance_sample_ratio)
    _check_logits(op, logits, uncertainty)
    if not isinstance(generator, torch.Generator | None):
        raise TypeError(
            f"visops.{op}: generator is a {type(generator).__name__}, must be a torch.Generator"
        )
    dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
    made: dict[str, Any] = {"dtype": dtype, "device": logits.device}
    if generator is not None:  # the overload with a generator, even None, takes no open sizes
        made["generator"] = generator
    batch = logits.shape[0]
    with torch.no_grad():
        points = torch.rand(batch, tried, 2, **made)
        values = sample(logits.detach(), points, "bilinear", "zeros", False)
        if uncertainty == "logit":
            confidence = values[:, 0].abs()
        else:
            highest = values.topk(2, dim=1).values
            confidence = highest[:, 0] - highest[:, 1]
        order = _least(confidence, uncertain)
        chosen = points.gather(1, order[..., None].expand(-1, -1, 2))
        if spread == 0:
            return chosen
        return torch.cat([chosen, torch.rand(batch, spread, 2, **made)], 1)


def _least(values: Tensor, count: int) -> Tensor:
    """Return the indices of each row's least values (>= 0), NaN before all, equal ones by index."""
    values = torch.where(values.isnan(), -1.0, values)
    if values.dtype == torch.float64:
        return values.sort(dim=1, stable=True).indices[:, :count]
    # topk() is much faster than a sort, but its order of equal values is not defined. Bits of
    # positive numbers are in the numbers' order; with the index below them, no two are equal.
    bits = values.float().view(torch.int32).to(torch.int64)
    keys = (bits.clamp(min=-1) << 32) | torch.arange(values.shape[1], device=values.device)
    return keys.topk(count, dim=1, largest=False).indices


def _counts(op: str, num_points: Any, oversample: float, importance: float) -> tuple[int, int, int]:
    """Return how many points are tried, chosen, and drawn afterwards."""
    try:
        count = as_index(num_points)
    except TypeError:
        raise TypeError(f"visops.{op}: num_points is {num_points!r}, must be an integer") from None
    if count < 0:
        raise ValueError(f"visops.{op}: num_points is {count}, must be >= 0")
    oversample = real_number(op, "oversample_ratio", oversample)
    importance = real_number(op, "importance_sample_ratio", importance)
    if not 1 <= oversample < float("inf"):
        raise ValueError(
            f"visops.{op}: oversample_ratio is {oversample}, must be finite and at least 1"
        )
    if not 0 <= importance <= 1:
        raise ValueError(
            f"visops.{op}: importance_sample_ratio is {importance}, must be from 0 to 1"
        )
    if count * oversample >= 2**31:
        raise ValueError(
            f"visops.{op}: num_points is {count}, oversample_ratio {oversample}; their product "
            f"must be below {2**31}"
        )
    uncertain = int(importance * count)
    return int(count * oversample), uncertain, count - uncertain


def _check_logits(op: str, logits: Any, uncertainty: str) -> None:
    require_tensors(op, logits=logits)
    require_plain(op, logits=logits)
    if logits.dim() != 4:
        raise RuntimeError(
            f"visops.{op}: logits has shape {list(logits.shape)}, must be [B, C, H, W]"
        )
    if not logits.is_floating_point():
        dtype = str(logits.dtype).removeprefix("torch.")  # as the operators name it
        raise RuntimeError(f"visops.{op}: logits has dtype {dtype}, must be a floating type")
    check_word(op, "uncertainty", uncertainty, _UNCERTAINTIES)
    channels = logits.shape[1]
    if uncertainty == "logit" and channels != 1:
        raise RuntimeError(
            f"visops.{op}: logits has {channels} channels, must have 1 for uncertainty 'logit'"
        )
    if uncertainty == "margin" and channels < 2:
        raise RuntimeError(
            f"visops.{op}: logits has {channels} channels, must have at least 2 for uncertainty "
            "'margin'"
        )
