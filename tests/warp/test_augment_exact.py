"""What must hold to the bit: copies, dtypes, layouts, arrays, lists, `out`, empty problems."""

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import visops
from references.affine import quarter_turn, random_matrix
from torch import Tensor

from warp.affine_cases import FLOATING, LAYOUTS, PADDINGS, random_image
from warp.augment_cases import DTYPES, SAMPLERS, name_of, random_color, random_erase, random_window

IDENTITY = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


def same(actual: Tensor, expected: Tensor) -> None:
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def everything(rng: np.random.Generator, batch: int, channels: int, size: Any) -> dict[str, Any]:
    """A use of every per-sample parameter."""
    return {
        "window": np.stack([random_window(rng, 20, 30) for _ in range(batch)]),
        "color": np.stack([random_color(rng, 2, channels) for _ in range(batch)]),
        "erase": np.stack([random_erase(rng, 2, size) for _ in range(batch)]),
        "clamp": True,
        "mean": 0.4,
        "std": 0.2,
        "fill": 0.5,
        "erase_value": 0.25,
    }


@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
@pytest.mark.parametrize(("mode", "antialias"), SAMPLERS)
def test_integer_maps_copy(dtype: torch.dtype, mode: str, antialias: bool) -> None:
    side = 150
    image = random_image(np.random.default_rng(0), (2, 3, side, side), dtype)
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        extremes = (float("inf"), float("-inf"), float("nan"), info.max, info.tiny, -0.0)
        for i, value in enumerate(extremes):
            image[i % 2, i % 3, i, side - 1 - i] = value
            image[1, 2, 0, i] = value
    options: dict[str, Any] = {"mode": mode, "antialias": antialias, "out_dtype": dtype}
    last = side - 1
    turn = quarter_turn(side)
    for matrix, expected in (
        (IDENTITY, image),
        ([[-1, 0, last], [0, 1, 0]], image.flip(3)),
        ([[1, 0, 0], [0, -1, last]], image.flip(2)),
        (turn, torch.rot90(image, 1, (2, 3))),
        ([*turn.tolist(), [0, 0, 1]], torch.rot90(image, 1, (2, 3))),
        ([[2, 0, 2], [0, 2, -4], [0, 0, 2]], image.roll((1, -2), (3, 2))),
    ):
        for padding_mode in PADDINGS:
            result = visops.augment(
                image, matrix, (side, side), padding_mode=padding_mode, **options
            )
            inside = (..., slice(0, last - 2), slice(1, None))
            same(result[inside], expected[inside])
    moved = visops.augment(image, [[1, 0, 1], [0, 1, 2]], (side, side), fill=1, **options)
    same(moved[:, :, 2:, 1:], image[:, :, :-2, :-1])
    assert (moved[:, :, :2] == 1).all()
    assert (moved[..., 0] == 1).all()
    for convention in ("integer", "half_pixel"):
        result = visops.augment(image, IDENTITY, (side, side), convention=convention, **options)
        same(result, image)


def test_dtypes_convert_by_full_scale() -> None:
    levels = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16)
    for dtype in FLOATING:
        result = visops.augment(levels, IDENTITY, (16, 16), out_dtype=dtype)
        # Computed in float32, also for float64 results.
        step = max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
        torch.testing.assert_close(result.double(), levels.double() / 255, rtol=step, atol=1e-7)
        back = visops.augment(result, IDENTITY, (16, 16), out_dtype=torch.uint8)
        assert dtype == torch.bfloat16 or torch.equal(back, levels)
    same(visops.augment(levels, IDENTITY, (16, 16), out_dtype=torch.uint8), levels)
    values = torch.tensor([[[[-1.0, -0.0, 0.5 / 255, 1.5 / 255, 2.5 / 255, 0.999, 1.0, 2.0]]]])
    result = visops.augment(values.double(), IDENTITY, (1, 8), out_dtype=torch.uint8)
    assert result.flatten().tolist() == [0, 0, 0, 2, 2, 255, 255, 255]
    # Every level survives the way through colour, clamp and normalisation and back.
    there = visops.augment(levels, IDENTITY, (16, 16), mean=0.45, std=0.22, clamp=True)
    back = visops.augment(there, IDENTITY, (16, 16), color=[[0.22, 0.45]], out_dtype=torch.uint8)
    same(back, levels)


def test_clamp_is_per_step() -> None:
    values = torch.tensor([[[[-0.5, 0.0, 0.25, 0.75, 1.5, float("inf"), float("nan")]]]])
    result = visops.augment(values, IDENTITY, (1, 7), clamp=True)
    same(result, torch.tensor([[[[0.0, 0.0, 0.25, 0.75, 1.0, 1.0, float("nan")]]]]))
    # Double, then halve: what passed 1 in between is cut off only with clamp.
    steps = torch.tensor([[[[2.0, 0.0]], [[0.5, 0.0]]]])
    free = visops.augment(values, IDENTITY, (1, 7), color=steps)
    same(free, values)
    cut = visops.augment(values, IDENTITY, (1, 7), color=steps, clamp=True)
    same(cut, torch.tensor([[[[0.0, 0.0, 0.25, 0.5, 0.5, 0.5, float("nan")]]]]))


def test_fill_is_coloured_and_erased_values_are_not() -> None:
    image = torch.zeros(1, 1, 4, 4, dtype=torch.uint8)
    away = [[1, 0, 100], [0, 1, 0]]
    result = visops.augment(
        image,
        away,
        (4, 4),
        fill=51,
        color=[[2, 0.1]],
        mean=0.25,
        std=0.5,
        erase=[[1, 0, 3, 9]],
        erase_value=7,
    )
    expected = torch.full((1, 1, 4, 4), 0.5)
    expected[..., 1:3] = 7
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-6)
    assert (result[..., 1:3] == 7).all()


def test_where_channels_are() -> None:
    """The documented rule, by the shape of the result."""
    layout: Any
    for shape, layout, array, channels in (
        ((2, 3, 8, 9), None, False, 3),
        ((2, 8, 9, 3), None, False, 3),
        ((2, 8, 9, 4), None, True, 4),
        ((2, 1, 8, 9), None, True, 1),
        ((2, 3, 8, 4), None, False, 3),
        ((2, 3, 8, 4), None, True, 4),
        ((2, 5, 8, 7), None, False, 5),
        ((2, 5, 8, 7), None, True, 7),
        ((2, 3, 8, 9), "HWC", False, 9),
        ((2, 8, 9, 3), "CHW", True, 8),
    ):
        batch: Any = np.zeros(shape, np.float32) if array else torch.zeros(shape)
        result = visops.augment(batch, IDENTITY, (5, 6), layout=layout)
        assert result.shape == (2, channels, 5, 6)
        result = visops.augment(list(batch), IDENTITY, (5, 6), layout=layout)
        assert result.shape == (2, channels, 5, 6)
    # In a list one image can tell for all of them.
    unclear = [torch.zeros(3, 8, 3), torch.zeros(7, 8, 3)]
    assert visops.augment(unclear, IDENTITY, (5, 6)).shape == (2, 3, 5, 6)
    assert visops.augment(unclear[:1], IDENTITY, (5, 6)).shape == (1, 3, 5, 6)
    mixed = (np.zeros((8, 7), np.float32), np.zeros((8, 7, 1), np.float32), torch.zeros(9, 9, 1))
    assert visops.augment(mixed, IDENTITY, (5, 6)).shape == (3, 1, 5, 6)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_arrays(dtype: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    image = (rng.random((20, 30, 3)) * 200).astype(dtype)
    matrix = random_matrix(rng, 20, 30, (25, 66))
    wide = np.zeros((40, 90, 5), dtype)
    wide[::2, ::3, 1:4] = image
    read_only = image.copy()
    read_only.flags.writeable = False
    bytes_ = np.zeros(image.nbytes + 1, np.uint8)
    unaligned = bytes_[1:].view(dtype).reshape(image.shape)
    unaligned[...] = image
    mapped = np.memmap(tmp_path / "image", dtype, "w+", shape=image.shape)
    mapped[...] = image
    record = np.zeros(image.shape, np.dtype([("value", dtype), ("tag", np.uint8)]))
    record["value"] = image
    kinds = {
        "plain": image,
        "fortran": np.asfortranarray(image),
        "flipped": image[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1],
        "every other": wide[::2, ::3, 1:4],
        "read-only": read_only,
        "read-only view": np.broadcast_to(image[None], (2, 20, 30, 3))[1],
        "channels apart": np.ascontiguousarray(image.transpose(2, 0, 1)).transpose(1, 2, 0),
        "foreign order": image.astype(np.dtype(dtype).newbyteorder(">")),
        "unaligned": unaligned,
        "mapped": mapped,
        "field": record["value"],
    }
    tensor = torch.from_numpy(image).permute(2, 0, 1)
    expected = visops.augment([tensor], matrix, (25, 66), fill=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, array in kinds.items():
            result = visops.augment([array], matrix, (25, 66), fill=1)
            assert torch.equal(result, expected), name
            result = visops.augment(array[None], matrix, (25, 66), fill=1)
            assert torch.equal(result, expected), name
    grey = visops.augment([image[..., 1]], matrix, (25, 66), fill=1)
    same(grey, expected[:, 1:2])
    planes = visops.augment(image.transpose(2, 0, 1)[None], matrix, (25, 66), fill=1)
    same(planes, expected)


def test_arrays_are_shared() -> None:
    for writeable, flip in itertools.product((True, False), (False, True)):
        memory = np.zeros((1, 20, 30, 3), np.float32)
        out = torch.from_numpy(memory).permute(0, 3, 1, 2)
        view = memory.view()
        view.flags.writeable = writeable
        if flip:  # torch has no negative strides: this one must be copied, and no memory is shared
            visops.augment([view[0, ::-1]], IDENTITY, (20, 30), out=out)
        else:
            with pytest.raises(RuntimeError, match=r"out shares memory with images\[0\]"):
                visops.augment([view[0]], IDENTITY, (20, 30), out=out)


def test_read_only_arrays_live_long_enough() -> None:
    """Nothing but the tensor's memory holds on to the array that it was made of."""

    def image() -> np.ndarray:
        array = np.full((256, 256, 3), 0.5, np.float32)
        array.flags.writeable = False
        return array

    result = visops.augment([image() for _ in range(8)], IDENTITY, (256, 256))
    assert (result == 0.5).all()


def test_parameters_of_any_kind() -> None:
    rng = np.random.default_rng(4)
    image = random_image(rng, (2, 3, 20, 30), torch.float32)
    matrix = random_matrix(rng, 20, 30, (25, 66))
    options = everything(rng, 2, 3, (25, 66))
    expected = visops.augment(image, matrix, (25, 66), **options)
    tensors = {k: torch.from_numpy(v) for k, v in options.items() if isinstance(v, np.ndarray)}
    strided = {k: v.repeat_interleave(2, -1)[..., ::2] for k, v in tensors.items()}
    flipped = {k: v.numpy()[:, ::-1].copy()[:, ::-1] for k, v in tensors.items()}
    plain = {k: v.tolist() for k, v in tensors.items()}
    for kind in (tensors, strided, flipped, plain):
        same(visops.augment(image, matrix, (25, 66), **{**options, **kind}), expected)
    low = {**options, "erase": tensors["erase"].to(torch.int16), "color": tensors["color"].float()}
    rounded = {**options, "color": tensors["color"].float().double()}
    same(
        visops.augment(image, matrix, (25, 66), **low),
        visops.augment(image, matrix, (25, 66), **rounded),
    )
    for name in ("mean", "std", "fill", "erase_value"):
        number = options[name]
        for value in (np.float64(number), torch.tensor(number).double(), [number] * 3, (number,)):
            given = {**options, name: value}
            same(visops.augment(image, matrix, (25, 66), **given), expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=name_of)
@pytest.mark.parametrize(("mode", "antialias"), SAMPLERS)
def test_constant_images_stay_constant(dtype: torch.dtype, mode: Any, antialias: bool) -> None:
    rng = np.random.default_rng(5)
    value = 0.5 if dtype.is_floating_point else 128
    image = torch.full((16, 2, 9, 14), value, dtype=dtype)
    for padding_mode in PADDINGS:
        scales = (0.05, 0.05, 0.2, 1.0) * 4
        matrices = [random_matrix(rng, 9, 14, (7, 40), scale=(s, 2 * s)) for s in scales]
        result = visops.augment(
            image,
            np.stack(matrices),
            (7, 40),
            mode=mode,
            padding_mode=padding_mode,
            antialias=antialias,
            window=[1.5, 2.25, 9.0, 8.5],
            fill=value,
            out_dtype=dtype,
        )
        tolerance = 0.0 if dtype in (torch.uint8, torch.bfloat16) else 8 * torch.finfo(dtype).eps
        torch.testing.assert_close(result, torch.full_like(result, value), rtol=0, atol=tolerance)


@pytest.mark.parametrize("listed", [False, True])
def test_out(listed: bool) -> None:
    rng = np.random.default_rng(6)
    image = random_image(rng, (2, 3, 20, 30), torch.uint8)
    images: Any = list(image) if listed else image
    matrices = np.stack([random_matrix(rng, 20, 30, (25, 66)) for _ in range(2)])
    options = everything(rng, 2, 3, (25, 66))
    for dtype in DTYPES:
        expected = visops.augment(images, matrices, (25, 66), out_dtype=dtype, **options)
        plain = torch.full((2, 3, 25, 66), 77).to(dtype)
        for layout, relayout in LAYOUTS.items():
            out = relayout(plain)
            version = out._version
            result = visops.augment(images, matrices, (25, 66), out=out, **options)
            assert result is out, layout
            assert out._version > version
            same(out, expected)
    canvas = torch.full((2, 3, 40, 90), -7.0)
    inner = canvas[:, :, 5:30, 7:73]
    visops.augment(images, matrices, (25, 66), out=inner, **options)
    same(inner, visops.augment(images, matrices, (25, 66), **options))
    inner.fill_(-7.0)
    assert (canvas == -7.0).all()


def test_empty() -> None:
    for shape, size, expected in (
        ((0, 3, 4, 5), (6, 7), (0, 3, 6, 7)),
        ((2, 0, 4, 5), (6, 7), (2, 0, 6, 7)),
        ((2, 3, 4, 5), (0, 5), (2, 3, 0, 5)),
        ((2, 3, 4, 5), (4, 0), (2, 3, 4, 0)),
        ((0, 0, 0, 0), (0, 0), (0, 0, 0, 0)),
    ):
        for mode, antialias in SAMPLERS:
            image = torch.rand(shape)
            result = visops.augment(
                image, IDENTITY, size, mode=mode, antialias=antialias, layout="CHW", clamp=True
            )
            assert result.shape == expected
            out = torch.empty(expected)
            visops.augment(image, IDENTITY, size, out=out, layout="CHW")
    none = visops.augment(torch.rand(0, 3, 4, 5), torch.zeros(0, 2, 3), (6, 7))
    assert none.shape == (0, 3, 6, 7)
    # An image without pixels is all border.
    for shape in ((2, 3, 0, 5), (2, 3, 5, 0), (2, 3, 0, 0)):
        for mode, antialias in SAMPLERS:
            result = visops.augment(
                torch.rand(shape), IDENTITY, (4, 6), fill=0.5, mode=mode, antialias=antialias
            )
            assert torch.equal(result, torch.full((2, 3, 4, 6), 0.5))
    ragged = [torch.ones(3, 0, 5), torch.ones(3, 5, 4)]
    result = visops.augment(ragged, IDENTITY, (2, 2), fill=0.5, layout="CHW")
    assert result.mean((1, 2, 3)).tolist() == [0.5, 1.0]
    # So is one whose window holds nothing.
    nothing = [[2.0, 0.0, 2.0, 5.0], [-9.0, 0.0, 0.0, 9.0]]
    result = visops.augment(torch.ones(2, 3, 5, 5), IDENTITY, (4, 6), fill=0.5, window=nothing)
    assert (result == 0.5).all()
    assert visops.augment(torch.ones(1, 1, 3, 3), IDENTITY, (3, 3), erase=[[1, 1, 1, 3]]).all()
