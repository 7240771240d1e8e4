"""Convolution and correlation by SciPy's rules: the public functions.

The arguments' rules are in convolve2d_problem.py, the methods in convolve2d_methods.py, the choice
between them in convolve2d_choice.py and convolve2d_costs.py. The direct method is an operator, with
its schema in csrc/library.cpp.
"""

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._torch.call import call_operator
from .convolve2d_choice import METHODS, Explain, convolve
from .convolve2d_problem import problem, turned

Array = TypeVar("Array", Tensor, np.ndarray)
_Device = torch.device | str | None

# Arrays of these need nothing where both have the same one.
_AS_THEY_ARE = frozenset(np.dtype(name) for name in ("uint8", "float32", "float64", "complex64"))


def convolve2d(
    in1: Array,
    in2: Array,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
    *,
    method: str = "auto",
    explain: Explain = None,
    device: _Device = None,
) -> Array:
    """Convolution of images with kernels: ``scipy.signal.convolve2d``, for batches and tensors.

    Arrays give SciPy's results, with its dtypes and sizes; integers exactly.

    Parameters
    ----------
    in1, in2 : Tensor or ndarray ``[..., height, width]``
        Both tensors or both arrays. The result has their common dtype, as NumPy (arrays) or torch
        (tensors) promotes: integers, which wrap, float32, float64, complex64 or complex128; tensors
        may also be float16 or bfloat16, summed in float32. Dimensions before the last two
        broadcast.
    mode : str
        ``"full"`` has every sum in which both inputs overlap; ``"same"`` is its middle, with in1's
        size; ``"valid"`` has the sums that need nothing from outside, and treats the larger input
        as the image, whichever it is.
    boundary : str
        What lies outside the image: ``"fill"`` is `fillvalue`, ``"wrap"`` repeats the image,
        ``"symm"`` mirrors it with edge pixels repeated. Kernels may be larger than the image.
    fillvalue : number
        For ``"fill"``; else not used. Cast to the result's dtype: integers drop fractions, and
        values that the dtype can't hold are an error.
    method : str
        ``"direct"`` sums over the kernel, with the same bits on every instruction set, at every
        thread count, and on CPU and CUDA. ``"im2col"`` is a matrix product; ``"fft"`` transforms
        tiles (not for integers). ``"separable"`` convolves with a row and a column, for kernels
        that are their product: exactly for integers, within 4 eps of the norm for others; the
        kernel then has no gradient. ``"auto"`` takes the cheapest by measured costs: always the
        same method for a problem, whatever the number of threads.
    explain : callable, optional
        Called with one line, the method used and why: ``explain=print``.
    device : optional
        For arrays: where to compute. They are copied there, and the result back.

    Returns
    -------
    Tensor or ndarray ``[..., height, width]``
        ``in1 + in2 - 1`` rows and columns for ``"full"``, ``in1`` for ``"same"``, and
        ``max - min + 1`` of both for ``"valid"``.

    Raises
    ------
    ValueError
        For unknown words, shapes that don't fit together, dtypes without a convolution, fill values
        that the dtype can't hold, and methods that don't apply.
    TypeError
        For anything but two tensors or two arrays, and for long doubles.
    RuntimeError
        For tensors on two devices.

    Notes
    -----
    Differentiable any number of times with respect to both inputs. The methods round differently.
    The FFT's errors are small relative to the largest results, not to each of them, and one NaN or
    infinity spreads over a tile: use ``method="direct"`` where that matters. Under torch.compile
    ``"auto"`` depends only on the kernel's size.

    Source of the contract: SciPy's documentation and behaviour (1.17).

    Examples
    --------
    >>> import numpy as np, visops
    >>> image = np.array([[0, 0, 0, 0], [0, 9, 9, 0], [0, 9, 9, 0], [0, 0, 0, 0]], np.uint8)
    >>> visops.convolve2d(image, np.ones((3, 3), np.uint8), mode="same")
    array([[ 9, 18, 18,  9],
           [18, 36, 36, 18],
           [18, 36, 36, 18],
           [ 9, 18, 18,  9]], dtype=uint8)
    """
    return _call(
        "convolve2d", in1, in2, mode, boundary, fillvalue, method, explain, device, flip=True
    )


def correlate2d(
    in1: Array,
    in2: Array,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
    *,
    method: str = "auto",
    explain: Explain = None,
    device: _Device = None,
) -> Array:
    """Correlation of images with kernels: ``scipy.signal.correlate2d``, for batches and tensors.

    The convolution with in2 turned by half a turn and conjugated.

    Parameters
    ----------
    in1, in2 : Tensor or ndarray ``[..., height, width]``
    mode : str
        As in :func:`convolve2d`. ``"same"`` has in1's size and is the middle of ``"full"``; where
        ``"valid"`` takes in2 as the image, the result is turned by half a turn, as SciPy's.
    boundary, fillvalue, method, explain, device
        As in :func:`convolve2d`.

    Returns
    -------
    Tensor or ndarray ``[..., height, width]``
        As :func:`convolve2d`.

    Raises
    ------
    ValueError, TypeError, RuntimeError
        As :func:`convolve2d`.

    Notes
    -----
    Gradients, roundings and bits: see :func:`convolve2d`. The source of the contract is SciPy's
    documentation and behaviour (1.17).

    Examples
    --------
    Where a pattern is:

    >>> import torch, visops
    >>> image = torch.zeros(5, 6)
    >>> image[2:4, 3:5] = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> found = visops.correlate2d(image, torch.tensor([[1.0, 2.0], [3.0, 4.0]]), mode="valid")
    >>> divmod(int(found.argmax()), found.shape[1])
    (2, 3)
    """
    return _call(
        "correlate2d", in1, in2, mode, boundary, fillvalue, method, explain, device, flip=False
    )


def _call(
    op: str,
    in1: Any,
    in2: Any,
    mode: str,
    boundary: str,
    fillvalue: Any,
    method: str,
    explain: Explain,
    device: _Device,
    *,
    flip: bool,
) -> Any:
    if not isinstance(method, str) or method not in METHODS:
        names = ", ".join(f"'{m}'" for m in METHODS[:-1])
        raise ValueError(f"visops.{op}: method is {method!r}, must be {names} or '{METHODS[-1]}'")
    if explain is not None and not callable(explain):
        raise TypeError(f"visops.{op}: explain is {explain!r}, must be callable, for example print")

    def of_tensors(first: Tensor, second: Tensor) -> Tensor:
        p, backwards = problem(op, first, second, mode, boundary, fillvalue, flip=flip)
        found = convolve(p, method, explain)
        return turned(found) if backwards else found

    if isinstance(in1, np.ndarray) and isinstance(in2, np.ndarray):
        in1, in2 = _promoted(op, in1, in2)
    return call_operator(op, of_tensors, device, {"in1": in1, "in2": in2})


def _promoted(op: str, in1: np.ndarray, in2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both arrays in NumPy's common dtype, in memory as torch takes it."""
    aligned = in1.flags.aligned and in2.flags.aligned
    if aligned and in1.dtype == in2.dtype and in1.dtype in _AS_THEY_ARE:
        return in1, in2
    given = f"visops.{op}: in1 has dtype {in1.dtype} and in2 {in2.dtype}"
    wanted = "must be integers, float32, float64, complex64 or complex128"
    if in1.dtype.kind not in "biufc" or in2.dtype.kind not in "biufc":
        raise ValueError(f"{given}, {wanted}")
    dtype = np.result_type(in1, in2)
    if dtype.char in "gG" and dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise TypeError(f"{given}, {wanted}: there is no torch dtype of that precision")
    if dtype.kind == "b" or dtype == np.float16:
        raise ValueError(f"{given}, the result's dtype would be {dtype}; {wanted}")
    return (
        np.require(in1, dtype, ["ALIGNED"]),
        np.require(in2, dtype, ["ALIGNED"]),
    )
