"""The sigmoid focal loss.

The schema is in csrc/library.cpp, checks of arguments in csrc/torch/losses/focal.cpp.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from .._torch.autocast import autocast_dtype, cast_to
from .._torch.declaring import Refused, operator
from .._torch.fakes import contiguous_like
from .._torch.numbers import real_number
from .._torch.options import Reduction, check_reduction
from .._torch.unsupported_inputs import require_plain, require_tensors
from .._torch.vmap_calls import mapped_first

_OP = "sigmoid_focal_loss"


def sigmoid_focal_loss(
    inputs: Tensor,
    targets: Tensor,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: Reduction = "none",
) -> Tensor:
    r"""Compute the focal loss of logits, each of which says whether something is there.

    .. math:: \alpha_t (1 - p_t)^\gamma \operatorname{BCE}(x, t),
              \quad p_t = p\,t + (1 - p)(1 - t), \quad p = 1 / (1 + e^{-x})

    One pass over the logits, and another for their gradient. Arguments and values are those of
    ``torchvision.ops.sigmoid_focal_loss``; with classes as targets, mmcv's.

    Parameters
    ----------
    inputs : Tensor ``[...]`` or ``[..., K]``
        Logits, of any floating dtype.
    targets : Tensor ``[...]``, or int64 ``[...]`` for inputs ``[..., K]``
        Numbers in [0, 1] for each logit, of any floating dtype; or the class of each row, from 0 to
        K - 1. A row whose class is any other number, such as K or -1, is background.
    alpha : float
        The weight of targets of 1, in [0, 1]; targets of 0 have 1 - alpha. Negative: no weights.
    gamma : float
        0 or more; 0 is the binary cross entropy.
    reduction : {"none", "mean", "sum"}
        What is returned of the losses of all logits. The mean is over logits, as torchvision's;
        with classes as targets it is the sum by the number of rows, as mmcv's.

    Returns
    -------
    Tensor of the shape of `inputs`, or one number if reduced
        Has the dtype of `inputs`, contiguous; computed in float32, or float64 for float64. Losses
        before reduction have the same bits on every instruction set, and on CPU and CUDA.

    Raises
    ------
    RuntimeError, TypeError, ValueError
        For wrong shapes, dtypes, devices, numbers and words.

    Notes
    -----
    Differentiable any number of times, by `targets` with torch's operators. Logits of any size have
    finite gradients; infinite ones have a gradient of 0 on the right side. Within
    ``torch.autocast`` it computes in float32, as torch's binary cross entropy does.

    Source: T.-Y. Lin et al., "Focal loss for dense object detection", ICCV 2017.

    Examples
    --------
    >>> import torch, visops
    >>> logits = torch.tensor([[2.0, -1.0, -3.0], [0.0, -4.0, -5.0]])
    >>> classes = torch.tensor([0, 3])  # the second box is background
    >>> losses = visops.sigmoid_focal_loss(logits, classes)
    >>> one_hot = torch.tensor([[1.0, 0, 0], [0, 0, 0]])
    >>> torch.equal(losses, visops.sigmoid_focal_loss(logits, one_hot))
    True
    >>> losses.sum()
    tensor(0.1475)
    """
    check_reduction(_OP, reduction)
    require_plain(_OP, inputs=inputs, targets=targets)
    require_tensors(_OP, inputs=inputs, targets=targets)
    numbers = real_number(_OP, "alpha", alpha), real_number(_OP, "gamma", gamma)
    losses: Tensor = _loss(*_with_autocast(inputs, targets, *numbers))
    if reduction == "mean":
        of_classes = targets.dim() < inputs.dim()
        return losses.sum() / targets.numel() if of_classes else losses.mean()
    return losses.sum() if reduction == "sum" else losses


class _Terms:
    """What the loss is made of, by torch's operators: NOTE [ Focal loss ] (core/losses/focal.h)."""

    def __init__(self, inputs: Tensor, targets: Tensor, alpha: float, gamma: float) -> None:
        if targets.dim() < inputs.dim():
            classes = torch.arange(inputs.shape[-1], device=inputs.device)
            targets = (targets[..., None] == classes).to(inputs.dtype)
        dtype = torch.float64 if inputs.dtype == torch.float64 else torch.float32
        x, t = inputs.to(dtype), targets.to(dtype)
        self.present, self.absent = (alpha, 1.0 - alpha) if alpha >= 0 else (1.0, 1.0)
        self.x, self.t, self.gamma = x, t, gamma
        self.p, self.q = x.sigmoid(), (-x).sigmoid()
        self.weight = self.present * t + self.absent * (1 - t)
        self.entropy = t * softplus(-x) + (1 - t) * softplus(x)
        self.wrong = (1 - t) * self.p + t * self.q
        self.power = self.wrong**gamma

        # The derivatives of entropy and, as a share of it, of wrong.
        self.slope = (1 - t) * self.p - t * self.q
        self.least = torch.where(self.wrong == 0, 1.0, self.wrong)
        soft = self.p * self.q * (1 - 2 * t) / self.least
        self.ratio = torch.where(t == 1, -self.p, torch.where(t == 0, self.q, soft))

    def second(self) -> Tensor:
        """Return the second derivative by the inputs."""
        p, q, t, gamma, ratio, slope = self.p, self.q, self.t, self.gamma, self.ratio, self.slope
        pq = p * q
        soft = pq * (1 - 2 * t) * (q - p) / self.least - ratio**2
        bend = torch.where((t == 0) | (t == 1), -pq, soft)
        inner = ratio * (slope + gamma * self.entropy * ratio) + slope * ratio + self.entropy * bend
        return self.weight * self.power * (gamma * inner + pq)

    def _power_by_targets(self) -> Tensor:
        if self.gamma == 0:
            return torch.zeros_like(self.wrong)
        return self.gamma * self.wrong ** (self.gamma - 1) * (self.q - self.p)

    def by_targets(self) -> Tensor:
        """Return the derivative by the targets."""
        of_weight = (self.present - self.absent) * self.entropy * self.power
        of_power = self.entropy * self._power_by_targets()
        return of_weight + self.weight * (of_power - self.x * self.power)

    def by_both(self) -> Tensor:
        """Return the derivative by the inputs of that by the targets."""
        inner = self.slope + self.gamma * self.entropy * self.ratio
        of_weight = (
            self.present - self.absent
        ) * self.power + self.weight * self._power_by_targets()
        pq, turn = self.p * self.q, (1 - 2 * self.t) * (self.q - self.p)
        of_ratio = -pq * (2 + turn / self.least) / self.least
        of_inner = self.gamma * (self.entropy * of_ratio - self.x * self.ratio) - 1
        return of_weight * inner + self.weight * self.power * of_inner


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    logits, targets, *ctx.options = inputs
    ctx.save_for_backward(logits, targets)


def _vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    logits, targets = ctx.saved_tensors
    of_logits = of_targets = None
    if ctx.needs_input_grad[0]:
        of_logits = _backward(grad, logits, targets, *ctx.options)
    if ctx.needs_input_grad[1]:
        of_targets = (grad * _Terms(logits, targets, *ctx.options).by_targets()).to(targets.dtype)
    return of_logits, of_targets, None, None


def _backward_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, logits, targets, *ctx.options = inputs
    ctx.save_for_backward(grad, logits, targets)


def _backward_vjp(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
    grad, logits, targets = ctx.saved_tensors
    of_grad = of_logits = of_targets = None
    if ctx.needs_input_grad[0]:
        of_grad = _backward(incoming, logits, targets, *ctx.options)
    if any(ctx.needs_input_grad[1:3]):
        terms = _Terms(logits, targets, *ctx.options)
        if ctx.needs_input_grad[1]:
            of_logits = (incoming * grad * terms.second()).to(logits.dtype)
        if ctx.needs_input_grad[2]:
            of_targets = (incoming * grad * terms.by_both()).to(targets.dtype)
    return of_grad, of_logits, of_targets, None, None


def _mapped(call: Any, info: Any, dims: Any, *arguments: Any) -> tuple[Tensor, int]:
    """Make one call, in which mapped entries are more rows."""
    *tensors, alpha, gamma = arguments
    mapped = [mapped_first(tensor, dims[i], info.batch_size) for i, tensor in enumerate(tensors)]
    return call(*mapped, alpha, gamma), 0


def _with_autocast(inputs: Tensor, targets: Tensor, *options: Any) -> tuple[Any, ...]:
    if autocast_dtype(inputs) is None:
        return inputs, targets, *options
    return *(cast_to(tensor, torch.float32) for tensor in (inputs, targets)), *options


_loss = operator(
    _OP,
    fake=contiguous_like(0),
    setup_context=_setup,
    backward=_vjp,
    vmap=_mapped,
    autocast=_with_autocast,
    onnx=Refused(instead="it is a loss: export the model without it"),
)
_backward = operator(
    f"{_OP}_backward",
    in_errors=_OP,
    fake=contiguous_like(1),
    setup_context=_backward_setup,
    backward=_backward_vjp,
    vmap=_mapped,
)
