"""Bad values, windows, rectangles and `out` of the augmentation, each with its message."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from bad_input import check, table

from warp.augment_bad_calls import (
    GOOD,
    IDENTITY,
    INF,
    LARGEST,
    NAN,
    SINGULAR,
    SIZE,
    call,
    images,
    tensor,
)

SHAPED = "must be [3, 4], [2, 3, 4] or [2, steps, 3, 4] for 2 images of 3 channels"


@table(
    *(
        (
            ValueError,
            f"augment: color has shape {list(shape)}, {SHAPED}",
            call(tensor(), color=torch.zeros(shape)),
        )
        for shape in ((4,), (3, 3), (4, 4), (3, 3, 4), (3, 1, 3, 4), (2, 1, 4, 4), (1, 1, 1, 3, 4))
    ),
    (
        TypeError,
        "augment: color is not an array of numbers",
        call(tensor(), color=[[1, 2], [3]]),
    ),
    (
        TypeError,
        "augment: color is complex",
        call(tensor(), color=torch.eye(3, 4).to(torch.cfloat)),
    ),
    (
        RuntimeError,
        "augment: color has 9 steps, must be 1 to 8",
        call(tensor(), color=torch.zeros(1, 9, 3, 4)),
    ),
    (
        RuntimeError,
        "augment: color has 0 steps, must be 1 to 8",
        call(tensor(), color=torch.zeros(1, 0, 3, 4)),
    ),
    (
        RuntimeError,
        "augment: color[1] has the value nan, must be finite",
        call(tensor(), color=np.stack([np.eye(3, 4), np.full((3, 4), NAN)])),
    ),
    (
        RuntimeError,
        "augment: color[0] has the value inf, must be finite",
        call(tensor(), color=np.eye(3, 4) * [1, 1, 1, 0] + [0, 0, 0, INF]),
    ),
    (
        RuntimeError,
        "augment: image has 5 channels, with color at most 4 are supported",
        call(tensor(shape=(1, 5, 4, 4)), color=torch.eye(5, 6), layout="CHW"),
    ),
    (
        RuntimeError,
        "augment: color is on meta, image is on cpu; all tensors must be on one device",
        call(tensor(), color=torch.zeros(3, 4, device="meta")),
    ),
    (
        RuntimeError,
        "augment: mean has 2 values, image has 3 channels (1 value, or 1 per channel)",
        call(tensor(), mean=[0.5, 0.5]),
    ),
    (
        TypeError,
        "augment: mean is 'a', must be a number or one per channel",
        call(tensor(), mean="a"),
    ),
    (RuntimeError, "augment: mean[1] is nan, must be finite", call(tensor(), mean=[0, NAN, 0])),
    (RuntimeError, "augment: std[0] is 0, must be finite and not 0", call(tensor(), std=0)),
    (
        RuntimeError,
        "augment: std[2] is inf, must be finite and not 0",
        call(tensor(), std=[1, 1, INF]),
    ),
    (
        RuntimeError,
        "augment: std has 4 values, image has 3 channels",
        call(tensor(), std=[1, 1, 1, 1]),
    ),
    (RuntimeError, "augment: fill has 0 values, image has 3 channels", call(tensor(), fill=[])),
    (TypeError, "augment: fill is None, must be a number or one per", call(tensor(), fill=None)),
    (
        RuntimeError,
        "augment: fill[1] is 256, must be within [0, 255] for an image of uint8",
        call(tensor(dtype=torch.uint8), fill=[0, 256, 0]),
    ),
    (
        RuntimeError,
        "augment: fill[0] is nan, must be within [0, 255] for an image of uint8",
        call(images(*GOOD), fill=NAN),
    ),
    (
        RuntimeError,
        "augment: fill has 65 values, at most 64 are supported; give one for all channels",
        call(tensor(shape=(1, 65, 4, 4)), fill=[0] * 65, layout="CHW"),
    ),
    (
        RuntimeError,
        "augment: erase_value has 2 values, image has 3 channels",
        call(tensor(), erase_value=(1, 2)),
    ),
)
def test_values(error: type[Exception], message: str, call: Any) -> None:
    check(error, message, call)


@table(
    *(
        (
            ValueError,
            f"augment: window has shape {list(shape)}, must be [4] or [2, 4] (x1, y1, x2, y2) for "
            "2 images",
            call(tensor(), window=torch.zeros(shape)),
        )
        for shape in ((2,), (3, 4), (1, 4), (2, 2, 2))
    ),
    (
        RuntimeError,
        "augment: window[1] is [3, 0, 2, 4], must be x1, y1, x2, y2 with x1 <= x2 and y1 <= y2",
        call(tensor(), window=[[0, 0, 5, 4], [3, 0, 2, 4]]),
    ),
    (
        RuntimeError,
        "augment: window[0] is [0, nan, 5, 4], must be x1, y1, x2, y2 with x1 <= x2 and y1 <= y2",
        call(tensor(), window=[0, NAN, 5, 4]),
    ),
    (
        RuntimeError,
        "augment: window[0] is [7, 0, 9, 4], has no pixel of the image of 4 x 5; only padding_mode",
        call(tensor(), window=[7, 0, 9, 4], padding_mode="reflect"),
    ),
    (
        TypeError,
        "augment: window is not an array of numbers",
        call(tensor(), window="whole"),
    ),
    *(
        (
            ValueError,
            f"augment: erase has shape {list(shape)}, must be [2, 4] or [2, rectangles, 4] "
            "(x1, y1, x2, y2) for 2 images",
            call(tensor(), erase=torch.zeros(shape, dtype=torch.int64)),
        )
        for shape in ((4,), (3, 4), (2, 3), (2, 1, 5), (2, 1, 1, 4))
    ),
    (
        TypeError,
        "augment: erase has dtype torch.float32, must be an integer type",
        call(tensor(), erase=torch.zeros(2, 4)),
    ),
    (
        TypeError,
        "augment: erase has dtype float64, must be an integer type",
        call(tensor(), erase=[[0.5, 0, 1, 1]] * 2),
    ),
    (
        TypeError,
        "augment: erase has dtype torch.bool, must be an integer type",
        call(tensor(), erase=torch.zeros(2, 4, dtype=torch.bool)),
    ),
    (
        RuntimeError,
        "augment: erase is on meta, image is on cpu; all tensors must be on one device",
        call(tensor(), erase=torch.zeros(2, 4, dtype=torch.int64, device="meta")),
    ),
)
def test_window_and_erase(error: type[Exception], message: str, call: Any) -> None:
    check(error, message, call)


OUT = (2, 3, *SIZE)


@table(
    (
        TypeError,
        "augment: out is a ndarray, must be a torch.Tensor",
        call(tensor(), out=np.zeros(OUT, np.float32)),
    ),
    (
        ValueError,
        "augment: out has shape [2, 3, 6, 8], size is (6, 7); they must agree",
        call(tensor(), out=tensor(shape=(2, 3, 6, 8))),
    ),
    (
        RuntimeError,
        "augment: out has shape [1, 3, 6, 7], must begin with [2, 3]",
        call(tensor(), out=tensor(shape=(1, 3, *SIZE))),
    ),
    (
        RuntimeError,
        "augment: out has shape [6, 7], must be [batch, channels, height, width]",
        call(tensor(), out=tensor(shape=SIZE)),
    ),
    (
        RuntimeError,
        "augment: out_dtype is int32, must be uint8, float16, bfloat16, float32 or float64",
        call(tensor(), out=tensor(shape=OUT, dtype=torch.int32)),
    ),
    (
        RuntimeError,
        "augment: out has shape [2, 3, 6, 7] and strides [42, 0, 7, 1]; its elements must not",
        call(tensor(), out=tensor(shape=(2, 1, *SIZE)).expand(OUT)),
    ),
    (
        RuntimeError,
        "augment: out can't be given where a gradient is required",
        call(tensor().requires_grad_(), out=tensor(shape=OUT)),
    ),
    (
        RuntimeError,
        "augment: out can't be given where a gradient is required",
        call(
            [tensor(shape=GOOD[0]), tensor(shape=GOOD[1]).requires_grad_()], out=tensor(shape=OUT)
        ),
    ),
    (
        RuntimeError,
        "augment: out can't be given where a gradient is required",
        call(tensor(), color=torch.eye(3, 4).requires_grad_(), out=tensor(shape=OUT)),
    ),
)
def test_out(error: type[Exception], message: str, call: Any) -> None:
    check(error, message, call)


def test_nothing_is_written_before_an_error() -> None:
    bad = images(*GOOD[:2], (4, 4, 4))
    out = torch.full((3, 3, *SIZE), -7.0)
    with pytest.raises(RuntimeError, match=r"images\[2\]"):
        visops.augment(bad, IDENTITY, SIZE, out=out)
    late = [IDENTITY, IDENTITY, SINGULAR]
    with pytest.raises(RuntimeError, match=r"matrix\[2\]"):
        visops.augment(images(*GOOD), late, SIZE, out=out)
    assert (out == -7.0).all()


def test_in_place() -> None:
    image = torch.zeros(1, 1, 8, 8)
    for out in (image, image[:, :, 1:, 1:], image.transpose(2, 3)):
        with pytest.raises(
            RuntimeError, match=r"^visops\.augment: out shares memory with image; an augmentation"
        ):
            visops.augment(image, IDENTITY, out.shape[2:], out=out)
    other = torch.zeros(1, 5, 5)
    with pytest.raises(
        RuntimeError, match=r"^visops\.augment: out shares memory with images\[1\]; an augmentation"
    ):
        visops.augment([other, image[0]], IDENTITY, (4, 8), out=image.view(2, 1, 4, 8))


def test_more_memory_than_there_is() -> None:
    with pytest.raises(RuntimeError, match=r"^visops\.augment: output of .* can't be allocated"):
        visops.augment(tensor(), IDENTITY, (LARGEST, 65536))


def test_arguments_of_a_wrong_type() -> None:
    for options, name in (
        ({"size": 4}, "size"),
        ({"size": (1.5, 2)}, "size"),
        ({"size": SIZE, "mode": 1}, "interpolation"),
    ):
        with pytest.raises(RuntimeError, match=rf"^visops\.augment: {name} is .*, must be"):
            visops.augment(tensor(), IDENTITY, **options)  # type: ignore[arg-type]


def test_infinite_fill_is_allowed() -> None:
    """NaN and infinities are values like others for floating images."""
    moved = [[1, 0, 3], [0, 1, 0]]
    for fill in (NAN, INF, -INF):
        for antialias in (False, True):
            result = visops.augment(
                tensor(), moved, (4, 5), fill=fill, antialias=antialias, erase_value=NAN
            )
            assert torch.equal(result[..., 3:], tensor()[..., 3:])
            expected = torch.full_like(result[..., :3], fill)
            torch.testing.assert_close(result[..., :3], expected, equal_nan=True)


@pytest.mark.cuda
def test_cuda() -> None:
    image = torch.rand(2, 3, 4, 5, device="cuda")
    with pytest.raises(
        RuntimeError, match=r"^visops\.augment: matrix is on cpu, image is on cuda:0"
    ):
        visops.augment(image, torch.tensor(IDENTITY), (4, 5))
    with pytest.raises(
        RuntimeError, match=r"^visops\.augment: images\[1\] is on cpu, images\[0\] is on cuda:0"
    ):
        visops.augment([image[0], image[1].cpu()], IDENTITY, (4, 5))
    # Values of CUDA tensors are not looked at: such a sample is `fill`.
    for bad in (SINGULAR, [[NAN, 0.0, 0.0], [0.0, 1.0, 0.0]]):
        matrices = torch.tensor([IDENTITY, bad], device="cuda")
        result = visops.augment(image, matrices, (4, 5), fill=[1, 2, 3])
        assert torch.equal(result[0], image[0])
        assert result[1].mean((1, 2)).tolist() == [1, 2, 3]
    window = torch.tensor([[0, 0, 5, 4.0], [3, 0, NAN, 4]], device="cuda")
    result = visops.augment(image, IDENTITY, (4, 5), fill=9, window=window)
    assert (result[1] == 9).all()
