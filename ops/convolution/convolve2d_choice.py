"""Which method convolves: the one asked for, or the fastest by measured costs."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from .._torch.fakes import any_zero, is_known
from .convolve2d_costs import crossover, ranking
from .convolve2d_methods import (
    Factors,
    convolve_direct,
    convolve_fft,
    convolve_im2col,
    convolve_separable,
    lying_if_narrow,
    wide_dtype,
)
from .convolve2d_problem import Problem, dtype_name

METHODS = ("auto", "direct", "im2col", "fft", "separable")
Explain = Callable[[str], Any] | None

# The direct method is done with this many products before another one has started, or costs have
# been looked up.
_FEW = 1 << 19

# A kernel counts as a product if it differs from one by at most this many eps of its norm. A
# product of two rounded factors, rounded and normalised, is off by one or two.
_ROUNDINGS = 4

_SMALL = 225  # elements of kernels that are looked at as plain numbers first

_HALVES = (torch.float16, torch.bfloat16)

_SIMPLE: dict[str, Callable[[Problem], Tensor]] = {
    "direct": convolve_direct,
    "im2col": lying_if_narrow(convolve_im2col),
    "fft": lying_if_narrow(convolve_fft),
}


def convolve(p: Problem, method: str, explain: Explain) -> Tensor:
    """Convolve by this method; tell `explain` which one it was and why."""
    if any_zero((*p.image.shape, *p.kernel.shape, *p.size)):
        _tell(p, explain, f"{method}, of nothing")
        return _of_nothing(p)
    if method == "auto":
        method, factors, why = _fastest(p)
    else:
        factors = _required_factors(p) if method == "separable" else None
        why = _as_asked
    if explain is not None:
        _tell(p, explain, f"{method}, {why()}")
    return _run(p, method, factors)


def _as_asked() -> str:
    return "as asked for"


def _as_few() -> str:
    return f"as there are no more than {_FEW} products"


def _run(p: Problem, method: str, factors: Factors | None) -> Tensor:
    return _SIMPLE[method](p) if factors is None else convolve_separable(p, factors)


def _tell(p: Problem, explain: Explain, what: str) -> None:
    if explain is not None:
        explain(
            f"{p.op}: {what}; {list(p.image.shape)} with {list(p.kernel.shape)}, "
            f"{dtype_name(p.image.dtype)} on {p.image.device.type}"
        )


def _of_nothing(p: Problem) -> Tensor:
    """Return a result that reads no element of the image but is in the graphs of both inputs."""
    # Sums of unsigned integers have the bits of signed ones.
    integer = not (p.image.dtype.is_floating_point or p.image.dtype.is_complex)
    dtype = torch.int64 if integer else p.image.dtype
    seen = p.kernel.to(dtype).sum((-2, -1), keepdim=True)
    if p.fill == 0:
        seen = p.kernel[..., :0, :0].to(dtype).sum((-2, -1), keepdim=True)
    else:
        seen = seen * torch.tensor(p.fill, dtype=p.image.dtype, device="cpu").to(dtype)
    seen = seen + p.image[..., :0, :0].to(dtype).sum((-2, -1), keepdim=True)
    return seen.to(p.image.dtype).expand(*p.lead, *p.size).contiguous()


def _wants_gradient(tensor: Tensor) -> bool:
    return tensor.requires_grad and torch.is_grad_enabled()


def _has_values(tensor: Tensor) -> bool:
    """Whether numbers can be read: not under torch.compile, nor where torch.func maps them."""
    if torch.compiler.is_compiling() or isinstance(tensor, FakeTensor) or tensor.is_meta:
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _required_factors(p: Problem) -> Factors:
    """Return the kernel's factors, or say why there are none."""
    message = f"visops.{p.op}: method is 'separable', "
    if _wants_gradient(p.kernel):
        raise ValueError(
            f"{message}must be another where in2 requires a gradient: its factors have none"
        )
    if not _has_values(p.kernel):
        raise ValueError(
            f"{message}must be another where in2 has no values to look at: under torch.compile, "
            "and where torch.func maps or differentiates it"
        )
    factors = factors_of(p.kernel)
    if factors is None:
        raise ValueError(
            f"{message}in2 of shape {list(p.kernel.shape)} must be the product of a column and a "
            "row"
        )
    return factors


def _fastest(p: Problem) -> tuple[str, Factors | None, Callable[[], str]]:
    """Return the method, its factors if it is separable, and why it was chosen."""
    image, kernel = p.image, p.kernel
    images, kernels = image.shape, kernel.shape
    taps = kernels[-2] * kernels[-1]
    if torch.compiler.is_compiling() or not image.is_cpu:
        return _fastest_by_kernel(p, taps)
    if len(images) == 2 == len(kernels) and p.size[0] * p.size[1] * taps <= _FEW:
        return "direct", None, _as_few
    if {*map(type, (*images, *kernels))} != {int}:
        return _fastest_by_kernel(p, taps)
    order = ranking(image.dtype, tuple(images), tuple(kernels), p.size)
    best = next(method for method, _ in order if method != "separable")
    if order[0][0] != "separable":
        note = ""
    elif _wants_gradient(p.kernel):
        note = "separable: not where in2 requires a gradient"
    elif not _has_values(p.kernel):
        note = "separable: in2 has no values to look at"
    else:
        factors = factors_of(p.kernel)
        if factors is not None:
            return "separable", factors, lambda: _in_words("separable", order)
        note = "separable: in2 is not of rank 1"
    return best, None, lambda: _in_words(best, order, note)


def _fastest_by_kernel(p: Problem, taps: Any) -> tuple[str, None, Callable[[], str]]:
    """Decide by the kernel alone: images' sizes may be symbols, and only the CPU was measured."""
    least = crossover(p.image.dtype, p.image.device.type)
    if not all(map(is_known, p.lead)):
        return "direct", None, lambda: "as the number of images depends on values"
    method = "direct" if least is None or taps < least else "fft"
    return method, None, lambda: f"as transforms are for kernels of {least} elements or more"


def _in_words(chosen: str, order: tuple[tuple[str, float], ...], note: str = "") -> str:
    times = {method: _duration(seconds) for method, seconds in order}
    taken = times.pop(chosen)
    if note or chosen != "separable":
        times.pop("separable", None)
    others = [f"{method} {duration}" for method, duration in times.items()]
    return f"about {taken} ({', '.join([*others, *([note] if note else [])])})"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def factors_of(kernel: Tensor) -> Factors | None:
    """Return the column and row whose product is the kernel, on the CPU; None if there are none.

    Integers must be an exact product of integers. Floating kernels may differ from the product by
    4 eps of their norm, where eps is of the dtype of sums: float32 for float16 and bfloat16. The
    factors have that dtype too. Reads the kernel's values.
    """
    if _has_a_minor(kernel):
        return None
    wide = kernel.detach().cpu().to(wide_dtype(kernel)).numpy()
    exact = wide.dtype == np.int64
    kh, kw = wide.shape[-2:]
    sums = torch.float32 if kernel.dtype in _HALVES else kernel.dtype
    with np.errstate(all="ignore"):
        found = [_factors_of_one(k, sums, exact) for k in wide.reshape(-1, kh, kw)]
    column = np.zeros((len(found), kh), wide.dtype)
    row = np.zeros((len(found), kw), wide.dtype)
    for i, factors in enumerate(found):
        if factors is None:
            return None
        column[i], row[i] = factors
    shape = wide.shape[:-2]
    return (
        torch.from_numpy(column.reshape(*shape, kh, 1)).to(sums),
        torch.from_numpy(row.reshape(*shape, 1, kw)).to(sums),
    )


def _has_a_minor(kernel: Tensor) -> bool:
    """Whether two rows and two columns of a small kernel show that it isn't a product.

    False leaves the question open. Most kernels are no product, and plain numbers say so sooner
    than a dozen calls to NumPy.
    """
    if kernel.dim() != 2 or not kernel.is_floating_point() or kernel.numel() > _SMALL:
        return False
    rows = kernel.detach().tolist()
    top, left = rows[0], rows[0][0]
    # What 4 eps of the norm, in every element, may add to a minor is below 17 eps of its square.
    eps = torch.finfo(torch.float32 if kernel.dtype in _HALVES else kernel.dtype).eps
    allowed = 2 * 17 * eps * sum(x * x for row in rows for x in row)
    return any(
        abs(left * x - row[0] * y) > allowed
        for row in rows[1:]
        for x, y in zip(row, top, strict=True)
    )


def _factors_of_one(
    kernel: np.ndarray, dtype: torch.dtype, exact: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the column and row through the largest element, which are the factors of a product."""
    i, j = divmod(int(np.abs(kernel).argmax()), kernel.shape[1])
    pivot = kernel[i, j]
    if pivot == 0:
        return kernel[:, j], kernel[i]
    if exact:
        row = kernel[i] // np.gcd.reduce(kernel[i])
        column = kernel[:, j] // row[j]
        return (column, row) if np.array_equal(column[:, None] * row, kernel) else None
    column, row = kernel[:, j], kernel[i] / pivot
    error = kernel - column[:, None] * row
    allowed = _ROUNDINGS * torch.finfo(dtype).eps
    # NaN and infinities compare as false.
    if np.vdot(error, error).real <= allowed**2 * np.vdot(kernel, kernel).real < math.inf:
        return column, row
    return None
