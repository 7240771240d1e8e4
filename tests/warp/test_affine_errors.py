"""Bad input of the affine warp: each row is an input and the message that it must give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check, table
from torch import Tensor

IDENTITY = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
SINGULAR = [[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]]
NAN, INF = float("nan"), float("inf")
LARGEST = 2**31 - 1


def tensor(*, dtype: torch.dtype = torch.float32, shape: Any = (2, 3, 4, 5)) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


def array(dtype: Any = np.uint8, shape: Any = (4, 5, 3)) -> np.ndarray:
    return np.zeros(shape, dtype)


def warp(image: Any, matrix: Any = IDENTITY, size: Any = None, **options: Any) -> Callable[[], Any]:
    return lambda: visops.warp_affine(image, matrix, size, **options)


@table(
    (
        TypeError,
        "warp_affine: image is a list, must be a torch.Tensor or a numpy.ndarray",
        warp([[1.0]]),
    ),
    (
        ValueError,
        "warp_affine: image has shape [4, 5], must be [batch, channels, height, width] or "
        "[channels, height, width]",
        warp(tensor(shape=(4, 5))),
    ),
    (
        ValueError,
        "warp_affine: image has shape [1, 2, 3, 4, 5], must be",
        warp(tensor(shape=(1, 2, 3, 4, 5))),
    ),
    (
        TypeError,
        "warp_affine: matrix has layout sparse_coo, must be dense; call to_dense() on it",
        warp(tensor(), torch.ones(1, 2, 3).to_sparse()),
    ),
    (
        TypeError,
        "warp_affine: image has layout mkldnn, must be dense; call to_dense() on it",
        warp(tensor(shape=(3, 4, 5)).to_mkldnn()),
    ),
    (
        RuntimeError,
        "warp_affine: image has dtype complex64, which is not supported",
        warp(tensor(dtype=torch.complex64)),
    ),
    (
        RuntimeError,
        "warp_affine: image has dtype float8_e4m3fn, which is not supported",
        warp(tensor().to(torch.float8_e4m3fn)),
    ),
    (
        TypeError,
        "warp_affine: matrix is a str, must be a tensor or convertible to one of float64",
        warp(tensor(), "abc"),
    ),
    (
        TypeError,
        "warp_affine: matrix is a list, must be a tensor or convertible",
        warp(tensor(), [[1, 2], [3]]),
    ),
    (
        RuntimeError,
        "warp_affine: matrix has shape [3, 3], must be [2, 3] or [batch, 2, 3]",
        warp(tensor(), torch.eye(3)),
    ),
    (
        RuntimeError,
        "warp_affine: matrix has shape [1, 1, 2, 3], must be [2, 3] or [batch, 2, 3]",
        warp(tensor(), torch.zeros(1, 1, 2, 3)),
    ),
    (
        RuntimeError,
        "warp_affine: matrix has batch 3, image has batch 2",
        warp(tensor(), torch.zeros(3, 2, 3)),
    ),
    (
        RuntimeError,
        "warp_affine: matrix has dtype int64, must be a floating type",
        warp(tensor(), torch.tensor([[1, 0, 0], [0, 1, 0]])),
    ),
    (
        RuntimeError,
        "warp_affine: matrix is on meta, image is on cpu; all tensors must be on one device",
        warp(tensor(), torch.zeros(2, 3, device="meta")),
    ),
    (
        RuntimeError,
        "warp_affine: matrix[1] is singular: [[1, 2, 0], [2, 4, 0]] maps the image onto a line",
        warp(tensor(), torch.tensor([IDENTITY, SINGULAR])),
    ),
    (
        RuntimeError,
        "warp_affine: matrix[1] is not finite: [[nan, 0, 0], [0, 1, 0]]",
        warp(tensor(), torch.tensor([IDENTITY, [[NAN, 0, 0], [0, 1, 0]]])),
    ),
    (
        RuntimeError,
        "warp_affine: matrix[1] is not finite: [[1, 0, -inf], [0, 1, 0]]",
        warp(tensor(), torch.tensor([IDENTITY, [[1, 0, -INF], [0, 1, 0]]]), inverse_map=True),
    ),
    (
        RuntimeError,
        "warp_affine: fill has 2 values, image has 3 channels (1 value, or 1 per channel)",
        warp(tensor(), fill=[1, 2]),
    ),
    (RuntimeError, "warp_affine: fill has 0 values, image has 3 channels", warp(tensor(), fill=[])),
    (
        RuntimeError,
        "warp_affine: fill[1] is 256, must be within [0, 255] for an image of uint8",
        warp(tensor(dtype=torch.uint8), fill=[0, 256, 0]),
    ),
    (
        RuntimeError,
        "warp_affine: fill[0] is nan, must be within [-32768, 32767] for an",
        warp(tensor(dtype=torch.int16), fill=NAN),
    ),
    (
        TypeError,
        "warp_affine: fill is 'a', must be a number or one per channel",
        warp(tensor(), fill="a"),
    ),
    (
        TypeError,
        "warp_affine: fill is None, must be a number or one per channel",
        warp(tensor(), fill=None),
    ),
    (
        RuntimeError,
        "warp_affine: mode is 'linear', must be 'nearest', 'bilinear' or 'bicubic'",
        warp(tensor(), mode="linear"),
    ),
    (
        RuntimeError,
        "warp_affine: padding_mode is 'zeros', must be 'constant', 'replicate', 'reflect', "
        "'symmetric' or 'circular'",
        warp(tensor(), padding_mode="zeros"),
    ),
    (
        ValueError,
        "warp_affine: convention is 'opencv', must be 'integer' or 'half_pixel'",
        warp(tensor(), convention="opencv"),
    ),
    (
        RuntimeError,
        "warp_affine: size[0] (height) is -1, must not be negative",
        warp(tensor(), size=(-1, 4)),
    ),
    (
        RuntimeError,
        "warp_affine: size has 3 values, must be (height, width)",
        warp(tensor(), size=(4, 4, 3)),
    ),
    (
        RuntimeError,
        "warp_affine: size[1] (width) is 1099511627776, at most 2147483647 is supported",
        warp(tensor(), size=(4, 2**40)),
    ),
    (
        RuntimeError,
        "warp_affine: output of 2 x 3 x 2147483647 x 2147483647 float32 elements passes 2^63 bytes",
        warp(tensor(), size=(LARGEST, LARGEST)),
    ),
    (
        RuntimeError,
        "warp_affine: mode of an image of bool must be 'nearest'; convert the image to a floating",
        warp(tensor(dtype=torch.bool)),
    ),
    (
        RuntimeError,
        "warp_affine: image of 0 x 5 pixels has nothing to pad with; only padding_mode 'constant'",
        warp(tensor(shape=(1, 1, 0, 5)), size=(2, 2), padding_mode="replicate"),
    ),
    (
        TypeError,
        "warp_affine: out is a ndarray, must be a torch.Tensor as image is",
        warp(tensor(), out=array()),
    ),
    (
        ValueError,
        "warp_affine: out has shape [2, 3, 4, 5], size is (4, 4); they must agree",
        warp(tensor(), size=(4, 4), out=tensor()),
    ),
    (
        RuntimeError,
        "warp_affine: out has shape [1, 3, 4, 5], must begin with [2, 3]",
        warp(tensor(), out=tensor(shape=(1, 3, 4, 5))),
    ),
    (
        RuntimeError,
        "warp_affine: out has shape [4, 5], must be [batch, channels, height, width]",
        warp(tensor(), out=tensor(shape=(4, 5))),
    ),
    (
        RuntimeError,
        "warp_affine: out has dtype float64, image has float32",
        warp(tensor(), out=tensor(dtype=torch.float64)),
    ),
    (
        RuntimeError,
        "warp_affine: out has shape [2, 3, 4, 5] and strides [20, 0, 5, 1]; its elements must",
        warp(tensor(), out=tensor(shape=(2, 1, 4, 5)).expand(2, 3, 4, 5)),
    ),
    (
        RuntimeError,
        "warp_affine: out can't be given where a gradient is required",
        warp(tensor().requires_grad_(), out=tensor()),
    ),
)
def test_tensors(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


def test_in_place() -> None:
    message = "out shares memory with image; a warp can't be done in place"
    image = torch.zeros(1, 1, 8, 8)
    for out in (image, image[:, :, 1:, 1:], image.transpose(2, 3)):
        with pytest.raises(RuntimeError, match=f"^visops.warp_affine: {message}"):
            visops.warp_affine(image, IDENTITY, out=out)
    pixels = np.zeros((8, 8))
    for view in (pixels, pixels[1:], pixels[::-1]):
        with pytest.raises(ValueError, match=f"^visops.warp_affine: {message}"):
            visops.warp_affine(pixels, IDENTITY, out=view)


def test_more_memory_than_there_is() -> None:
    message = r"^visops\.warp_affine: output of .* can't be allocated"
    with pytest.raises(RuntimeError, match=message):
        visops.warp_affine(tensor(), IDENTITY, (LARGEST, 65536))
    with pytest.raises(MemoryError, match="Unable to allocate"):
        visops.warp_affine(array(), IDENTITY, (LARGEST, 65536))


@pytest.mark.parametrize("matrix", [SINGULAR, [[NAN, 0.0, 0.0], [0.0, 1.0, 0.0]]], ids=str)
def test_shared_matrices_are_not_numbered(matrix: Any) -> None:
    rows: list[tuple[Any, type[Exception]]] = [(tensor(), RuntimeError), (array(), ValueError)]
    for image, error in rows:
        with pytest.raises(error, match=r"^visops\.warp_affine: matrix is (singular|not finite)"):
            visops.warp_affine(image, matrix)


@pytest.mark.parametrize(
    "matrix", [torch.tensor(IDENTITY), IDENTITY, torch.zeros(2, 3)], ids=["tensor", "list", "zeros"]
)
def test_singular_matrices_are_fine_as_they_are(matrix: Any) -> None:
    """Destination to source: every output pixel may well come from one place."""
    result = visops.warp_affine(torch.rand(1, 1, 4, 5), matrix, inverse_map=True)
    assert torch.isfinite(result).all()


def test_arguments_of_a_wrong_type() -> None:
    for options, name in (
        ({"size": 4}, "size"),
        ({"size": (1.5, 2)}, "size"),
        ({"mode": 1}, "mode"),
    ):
        with pytest.raises(RuntimeError, match=rf"^visops\.warp_affine: {name} is .*, must be"):
            visops.warp_affine(tensor(), IDENTITY, **options)  # type: ignore[arg-type]


@pytest.mark.cuda
def test_cuda() -> None:
    image = torch.rand(2, 3, 4, 5, device="cuda")
    with pytest.raises(
        RuntimeError, match=r"^visops\.warp_affine: matrix is on cpu, image is on cuda:0"
    ):
        visops.warp_affine(image, torch.tensor(IDENTITY))
    # Values of a CUDA matrix are not looked at: the sample is `fill`.
    for bad in (SINGULAR, [[NAN, 0.0, 0.0], [0.0, 1.0, 0.0]]):
        matrices = torch.tensor([IDENTITY, bad], device="cuda")
        result = visops.warp_affine(image, matrices, fill=[1, 2, 3])
        assert torch.equal(result[0], image[0])
        assert result[1].mean((1, 2)).tolist() == [1, 2, 3]


def test_the_operator_names_itself() -> None:
    with pytest.raises(RuntimeError, match=r"^visops\.affine: matrix has shape \[3, 3\]"):
        torch.ops.visops.affine(tensor(), torch.eye(3), (4, 5))
