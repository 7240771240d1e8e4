"""The augmentation's operators in torch: fake kernels, gradients, vmap.

The public function is in augment.py, the schemas are in csrc/library.cpp.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._torch.declaring import operator
from .._torch.fakes import empty_maps, prefers_channels_last
from .augment_arguments import SHARED, AugmentOptions
from .augment_direct import augment_direct

_BEFORE_OPTIONS = 3  # images, matrix and size
_INPUT_COLOR = _BEFORE_OPTIONS + AugmentOptions._fields.index("color")


def _each_image(images: Sequence[Tensor], matrix: Tensor, size: Any, *rest: Any) -> Tensor:
    """augment_list as one call per image: the same bits, with every tensor an argument."""
    count, options = len(images), AugmentOptions(*rest)
    results = []
    for i, image in enumerate(images):
        one = matrix[i : i + 1] if matrix.dim() == 3 else matrix
        results.append(augment(image.unsqueeze(0), one, size, *options.of_sample(i, count)))
    return torch.cat(results)


def _augment_fake(image: Tensor, matrix: Tensor, size: Sequence[Any], *rest: Any) -> Tensor:
    options = AugmentOptions(*rest)
    shape = (image.shape[0], image.shape[1], *size)
    return empty_maps(image, shape, options.channels_last, options.out_dtype or torch.float32)


def _augment_list_fake(
    images: Sequence[Tensor], matrix: Tensor, size: Sequence[Any], *rest: Any
) -> Tensor:
    options = AugmentOptions(*rest)
    shape = (len(images), images[0].shape[0], *size)
    return empty_maps(images[0], shape, options.channels_last, options.out_dtype or torch.float32)


def _augment_backward_fake(
    grad: Tensor, image: Tensor, matrix: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    image_grad, matrix_grad, color_grad = rest[SHARED:]
    device, batch = image.device, image.shape[0]

    def sums(wanted: bool, shape: Sequence[Any], dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.empty(shape if wanted else (0,), dtype=dtype, device=device)

    if image_grad:
        grad_image = empty_maps(image, image.shape, prefers_channels_last(image))
    else:
        single = image.dtype != torch.float64
        grad_image = sums(False, (), torch.float32 if single else torch.float64)
    color = AugmentOptions(*rest[:SHARED]).color
    steps = color.shape[1:] if color_grad and color is not None else ()
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
    image, matrix, _, *rest = inputs
    ctx.save_for_backward(image, matrix, *_take_tensors(ctx, rest))


def _take_tensors(ctx: Any, rest: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Keep the options without their tensors in `ctx.options`; return the tensors."""
    options = AugmentOptions(*rest)
    ctx.options = options
    if options.has_tensors():
        ctx.options = options._replace(window=None, color=None, erase=None)
    return options.window, options.color, options.erase


def _options(ctx: Any, window: Any, color: Any, erase: Any) -> AugmentOptions:
    options: AugmentOptions = ctx.options
    if window is color is erase is None:
        return options
    return options._replace(window=window, color=color, erase=erase)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    image, matrix, window, color, erase = ctx.saved_tensors
    needs = ctx.needs_input_grad
    wanted = (needs[0], needs[1], color is not None and needs[_INPUT_COLOR])
    options = _options(ctx, window, color, erase)
    gradients = _augment_backward(grad, image, matrix, *options[:SHARED], *wanted)
    result: list[Tensor | None] = [None] * len(needs)
    if wanted[0]:
        result[0] = gradients[0]
    if wanted[1]:
        result[1] = _matrix_gradient(gradients[1], matrix)
    if wanted[2]:
        result[_INPUT_COLOR] = _color_gradient(gradients[2], color)
    return tuple(result)


def _list_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    images, matrix, _, *rest = inputs
    ctx.save_for_backward(matrix, *_take_tensors(ctx, rest), *images)


def _list_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    matrix, window, color, erase, *images = ctx.saved_tensors
    options = _options(ctx, window, color, erase)
    needs = ctx.needs_input_grad
    count = len(images)
    color_grad = color is not None and needs[_INPUT_COLOR]
    image_grads: list[Tensor | None] = [None] * count
    matrix_parts, color_parts = [], []
    for i, image in enumerate(images):
        wanted = (needs[0][i], needs[1], color_grad)
        if not any(wanted):
            continue
        parts = (*options.of_sample(i, count)[:SHARED], *wanted)
        one = matrix[i : i + 1] if matrix.dim() == 3 else matrix
        gradients = _augment_backward(grad[i : i + 1], image.unsqueeze(0), one, *parts)
        if needs[0][i]:
            image_grads[i] = gradients[0].squeeze(0)
        matrix_parts.append(gradients[1])
        color_parts.append(gradients[2])
    result: list[Any] = [image_grads, *[None] * (len(needs) - 1)]
    # Trailing options that equal their defaults may be left out of `needs`.
    after = _BEFORE_OPTIONS
    for index, option in enumerate(ctx.options[: len(needs) - after], after):
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


def _fold_options(rest: Sequence[Any], in_dims: Any, count: int, batch: int) -> AugmentOptions:
    """Fold the tensors among the options; the dimensions of those left out are None as well."""
    options, dims = AugmentOptions(*rest), AugmentOptions(*in_dims)

    def folded(tensor: Tensor | None, dim: Any) -> Tensor | None:
        if tensor is None or (dim is None and tensor.shape[0] == 1 and batch != 1):
            return tensor  # a color shared by all samples of all calls
        if dim is not None:
            tensor = tensor.movedim(dim, 0)
            tensor = tensor.expand(count, batch, *tensor.shape[2:])
            dim = 0
        return _fold(tensor, dim, count).contiguous()

    return options._replace(
        window=folded(options.window, dims.window),
        color=folded(options.color, dims.color),
        erase=folded(options.erase, dims.erase),
    )


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
    call: Any, info: Any, in_dims: Any, image: Tensor, matrix: Tensor, size: Any, *rest: Any
) -> tuple[Tensor, int]:
    count = info.batch_size
    images = _fold(image, in_dims[0], count)
    batch = images.shape[0] // count
    matrices = _fold_matrix(matrix, in_dims[1], count, batch)
    folded = _fold_options(rest, in_dims[_BEFORE_OPTIONS:], count, batch)
    return _unfold(call(images, matrices, size, *folded), count), 0


def _backward_vmap(
    call: Any, info: Any, in_dims: Any, grad: Tensor, image: Tensor, matrix: Tensor, *rest: Any
) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:
    count = info.batch_size
    grads, images = _fold(grad, in_dims[0], count), _fold(image, in_dims[1], count)
    batch = images.shape[0] // count
    matrices = _fold_matrix(matrix, in_dims[2], count, batch)
    shared, wanted = rest[:SHARED], rest[SHARED:]
    dims = in_dims[_BEFORE_OPTIONS:][:SHARED]
    folded = _fold_options(shared, dims, count, batch)[:SHARED]
    gradients = call(grads, images, matrices, *folded, *wanted)
    results = [_unfold(g, count) if w else g for g, w in zip(gradients, wanted, strict=True)]
    return tuple(results), tuple(0 if w else None for w in wanted)


augment = operator(
    "augment",
    fake=_augment_fake,
    setup_context=_setup,
    backward=_backward,
    constants=("window", "erase"),
    vmap=_vmap,
    direct=augment_direct,
    onnx="warp",
)
augment_list = operator(
    "augment_list",
    in_errors="augment",
    fake=_augment_list_fake,
    setup_context=_list_setup,
    backward=_list_backward,
    one_by_one=_each_image,
    constants=("window", "erase"),
    onnx="warp",
    documented_as="augment",
    note="Images may have different sizes.",
)
augment_out = operator("augment_out", in_errors="augment", documented_as="augment")
augment_list_out = operator("augment_list_out", in_errors="augment", documented_as="augment")
_augment_backward = operator(
    "augment_backward",
    fake=_augment_backward_fake,
    backward=_backward_backward,
    vmap=_backward_vmap,
)
