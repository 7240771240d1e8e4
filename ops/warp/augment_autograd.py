"""The augmentation's operators in torch: fake kernels, gradients, vmap.

The public function is in augment.py, the schemas are in csrc/library.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.channels_last import empty_maps, prefers_channels_last
from .._torch.differentiable import Differentiable, reject_lazy_out
from .._torch.fakes import register_fake
from .augment_direct import augment_direct

# The options that all forms share, in the order and with the defaults of the schemas, then those of
# the forms that allocate. The dispatcher leaves out trailing arguments that equal their defaults.
_DEFAULTS: tuple[Any, ...] = (
    *("bilinear", "constant", [0.0], False, None, None, False, [], [], None, [0.0], False, False),
    *(None, False, 0),
)
_WINDOW, _COLOR, _ERASE = 4, 5, 9  # the tensors among them
_OPTIONS = 13
_INPUT_COLOR = 3 + _COLOR  # after images, matrix and size


def _each_image(images: Sequence[Tensor], matrix: Tensor, *rest: Any) -> Tensor:
    """augment_list as one call per image: the same bits, with every tensor an argument."""
    count = len(images)
    results = []
    for i, image in enumerate(images):
        size, *options = rest
        for position in (_WINDOW, _COLOR, _ERASE):
            options[position] = _sample(options[position], i, count)
        one = matrix[i : i + 1] if matrix.dim() == 3 else matrix
        results.append(augment(image.unsqueeze(0), one, size, *options))
    return torch.cat(results)


augment = Differentiable("augment")
augment_list = Differentiable("augment_list")
_augment_backward = Differentiable("augment_backward")


def _sample(tensor: Tensor | None, i: int, count: int) -> Tensor | None:
    """Entry i of a [count, ...], as [1, ...]; or all of a shared [1, ...]."""
    return tensor if tensor is None or tensor.shape[0] != count else tensor[i : i + 1]


@register_fake("augment")
def _augment_fake(image: Tensor, matrix: Tensor, size: Sequence[Any], *rest: Any) -> Tensor:
    *_, dtype, channels_last, _ = (*rest, *_DEFAULTS[len(rest) :])
    shape = (image.shape[0], image.shape[1], *size)
    return empty_maps(image, shape, channels_last, dtype or torch.float32)


@register_fake("augment_list", public="augment")
def _augment_list_fake(
    images: Sequence[Tensor], matrix: Tensor, size: Sequence[Any], *rest: Any
) -> Tensor:
    *_, dtype, channels_last, _ = (*rest, *_DEFAULTS[len(rest) :])
    shape = (len(images), images[0].shape[0], *size)
    return empty_maps(images[0], shape, channels_last, dtype or torch.float32)


@register_fake("augment_out", public="augment")
@register_fake("augment_list_out", public="augment")
def _augment_out_fake(*arguments: Any) -> None:
    pass


@register_fake("augment_backward")
def _augment_backward_fake(
    grad: Tensor, image: Tensor, matrix: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    image_grad, matrix_grad, color_grad = rest[_OPTIONS:]
    device, batch = image.device, image.shape[0]

    def sums(wanted: bool, shape: Sequence[Any], dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.empty(shape if wanted else (0,), dtype=dtype, device=device)

    if image_grad:
        grad_image = empty_maps(image, image.shape, prefers_channels_last(image))
    else:
        single = image.dtype != torch.float64
        grad_image = sums(False, (), torch.float32 if single else torch.float64)
    steps = rest[_COLOR].shape[1:] if color_grad else ()
    return (
        grad_image,
        sums(matrix_grad, (batch, *matrix.shape[-2:])),
        sums(color_grad, (batch, *steps)),
    )


def _sum_samples(tensor: Tensor) -> Tensor:
    """[B, ...] -> [1, ...], adding in the same order on every device."""
    count = tensor.shape[0]
    while count > 1:
        half = count // 2
        sums = tensor[:half] + tensor[half : 2 * half]
        tensor = torch.cat([sums, tensor[2 * half :]]) if count % 2 else sums
        count = count - half
    return tensor if count else tensor.sum(0, keepdim=True)


def _matrix_gradient(each: Tensor, matrix: Tensor) -> Tensor:
    """Gradient of the given matrix, from those of each sample's."""
    return (each if matrix.dim() == 3 else _sum_samples(each).squeeze(0)).to(matrix.dtype)


def _color_gradient(each: Tensor, color: Tensor) -> Tensor:
    return each if color.shape[0] == each.shape[0] else _sum_samples(each)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    image, matrix, _, *options = inputs
    ctx.save_for_backward(image, matrix, *_take_tensors(ctx, options))


def _take_tensors(ctx: Any, options: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Keep the options without their tensors in `ctx.options`; return the tensors."""
    tensors = window, color, erase = options[_WINDOW], options[_COLOR], options[_ERASE]
    if window is color is erase is None:
        ctx.options = tuple(options[:_OPTIONS])
    else:
        ctx.options = (*options[:4], None, None, *options[6:9], None, *options[10:_OPTIONS])
    return tensors


def _options(ctx: Any, window: Any, color: Any, erase: Any) -> tuple[Any, ...]:
    options: tuple[Any, ...] = ctx.options
    if window is color is erase is None:
        return options
    return (*options[:4], window, color, *options[6:9], erase, *options[10:])


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    image, matrix, window, color, erase = ctx.saved_tensors
    needs = ctx.needs_input_grad
    wanted = (needs[0], needs[1], color is not None and needs[_INPUT_COLOR])
    options = _options(ctx, window, color, erase)
    gradients = _augment_backward(grad, image, matrix, *options, *wanted)
    result: list[Tensor | None] = [None] * len(needs)
    if wanted[0]:
        result[0] = gradients[0]
    if wanted[1]:
        result[1] = _matrix_gradient(gradients[1], matrix)
    if wanted[2]:
        result[_INPUT_COLOR] = _color_gradient(gradients[2], color)
    return tuple(result)


def _list_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    images, matrix, _, *options = inputs
    ctx.save_for_backward(matrix, *_take_tensors(ctx, options), *images)


def _list_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    matrix, window, color, erase, *images = ctx.saved_tensors
    needs = ctx.needs_input_grad
    count = len(images)
    color_grad = color is not None and needs[_INPUT_COLOR]
    image_grads: list[Tensor | None] = [None] * count
    matrix_parts, color_parts = [], []
    for i, image in enumerate(images):
        wanted = (needs[0][i], needs[1], color_grad)
        if not any(wanted):
            continue
        parts = _options(ctx, *(_sample(t, i, count) for t in (window, color, erase)))
        one = matrix[i : i + 1] if matrix.dim() == 3 else matrix
        gradients = _augment_backward(grad[i : i + 1], image.unsqueeze(0), one, *parts, *wanted)
        if needs[0][i]:
            image_grads[i] = gradients[0].squeeze(0)
        matrix_parts.append(gradients[1])
        color_parts.append(gradients[2])
    result: list[Any] = [image_grads, *[None] * (len(needs) - 1)]
    # Trailing options that equal their defaults may be left out of `needs`.
    for index, option in enumerate(ctx.options[: len(needs) - 3], 3):
        if option == []:  # torch takes it for a list of tensors
            result[index] = []
    if needs[1]:
        result[1] = _matrix_gradient(torch.cat(matrix_parts), matrix)
    if color_grad:
        result[_INPUT_COLOR] = _color_gradient(torch.cat(color_parts), color)
    return tuple(result)


def _backward_backward(ctx: Any, *_: Any) -> None:
    raise RuntimeError(
        "visops.augment: its gradients can't be differentiated again; use warp_affine, which is "
        "twice differentiable in its image, or detach where that is not needed"
    )


def _fold(tensor: Tensor, dim: int | None, count: int) -> Tensor:
    """[B, ...] with a mapped dimension anywhere, or none, to [count * B, ...]."""
    every = tensor.expand(count, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return every.flatten(0, 1)


def _fold_options(options: Sequence[Any], dims: Any, count: int, batch: int) -> list[Any]:
    folded = list(options)
    for position in (_WINDOW, _COLOR, _ERASE):
        tensor, dim = options[position], dims[position]
        if tensor is None or (dim is None and tensor.shape[0] == 1 and batch != 1):
            continue  # a color shared by all samples of all calls
        if dim is not None:
            tensor = tensor.movedim(dim, 0)
            tensor = tensor.expand(count, batch, *tensor.shape[2:])
            dim = 0
        folded[position] = _fold(tensor, dim, count).contiguous()
    return folded


def _fold_matrix(matrix: Tensor, dim: int | None, count: int, batch: int) -> Tensor:
    if dim is None:
        return matrix if matrix.dim() == 2 else _fold(matrix, dim, count)
    matrix = matrix.movedim(dim, 0)
    if matrix.dim() == 3:  # one matrix for all samples of a call
        matrix = matrix.unsqueeze(1).expand(count, batch, *matrix.shape[1:])
    return matrix.flatten(0, 1)


def _unfold(folded: Tensor, count: int) -> Tensor:
    return folded.reshape(count, folded.shape[0] // count, *folded.shape[1:])


def _vmap(
    info: Any, in_dims: Any, image: Tensor, matrix: Tensor, size: Any, *options: Any
) -> tuple[Tensor, int]:
    count = info.batch_size
    images = _fold(image, in_dims[0], count)
    batch = images.shape[0] // count
    matrices = _fold_matrix(matrix, in_dims[1], count, batch)
    folded = _fold_options(options, in_dims[3:], count, batch)
    return _unfold(augment(images, matrices, size, *folded), count), 0


def _backward_vmap(
    info: Any, in_dims: Any, grad: Tensor, image: Tensor, matrix: Tensor, *options: Any
) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:
    count = info.batch_size
    grads, images = _fold(grad, in_dims[0], count), _fold(image, in_dims[1], count)
    batch = images.shape[0] // count
    matrices = _fold_matrix(matrix, in_dims[2], count, batch)
    folded = _fold_options(options, in_dims[3:], count, batch)
    gradients = _augment_backward(grads, images, matrices, *folded)
    wanted = options[_OPTIONS:]
    results = [_unfold(g, count) if w else g for g, w in zip(gradients, wanted, strict=True)]
    return tuple(results), tuple(0 if w else None for w in wanted)


augment.register(
    setup_context=_setup,
    backward=_backward,
    constants=("window", "erase"),
    vmap=_vmap,
    direct=augment_direct,
)
augment_list.register_list(
    setup_context=_list_setup,
    backward=_list_backward,
    one_by_one=_each_image,
    constants=("window", "erase"),
)
_augment_backward.register(backward=_backward_backward, vmap=_backward_vmap)

reject_lazy_out("augment_out", "augment_list_out", public="augment")
