"""visops.remap: OpenCV's values, torch's operators, forms, and what it refuses."""

import platform
from typing import Any

import cv2
import numpy as np
import pytest
import torch
import visops

MODES = {"bilinear": cv2.INTER_LINEAR, "nearest": cv2.INTER_NEAREST, "bicubic": cv2.INTER_CUBIC}
PADDINGS = {
    "constant": cv2.BORDER_CONSTANT,
    "replicate": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT_101,
    "symmetric": cv2.BORDER_REFLECT,
    "circular": cv2.BORDER_WRAP,
}


def picture(dtype: Any = np.uint8) -> np.ndarray:
    noise = np.random.default_rng(0).integers(0, 256, (61, 83, 3), np.uint8)
    return cv2.GaussianBlur(noise, (0, 0), 1.5).astype(dtype)


def maps(scale: float = 1.7, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x, y = np.meshgrid(np.arange(55, dtype=np.float32), np.arange(40, dtype=np.float32))
    both = (plane * scale - 7 + generator.normal(0, 2, x.shape) for plane in (x, y))
    x, y = (plane.astype(np.float32) for plane in both)
    return x, y


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_values_are_opencv_s_and_torch_s(mode: str, padding: str, dtype: Any) -> None:
    image, (x, y) = picture(dtype), maps()
    found = visops.remap(image, x, y, mode=mode, padding_mode=padding, fill=7)
    border = PADDINGS[padding]
    expected = cv2.remap(image, x, y, MODES[mode], borderMode=border, borderValue=(7, 7, 7))
    # OpenCV 4 rounds places to 1/32 of a pixel; OpenCV 5 does not.
    rough = 0 if int(cv2.__version__[0]) >= 5 or mode == "nearest" else 12
    distance = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    if mode == "bicubic" and padding == "constant" and rough == 0:
        rough = 12  # OpenCV blends with the border's value in another way
    # On ARM, OpenCV rounds some bicubic bytes to the other neighbour; ours are checked below.
    step = 1 if mode == "bicubic" and platform.machine() in ("aarch64", "arm64") else 0.51
    assert distance.max() <= rough + (1e-3 if dtype == np.float32 else step)
    planes = torch.from_numpy(image.copy()).permute(2, 0, 1).double().requires_grad_()
    options: dict[str, Any] = {"mode": mode, "padding_mode": padding, "fill": 7.0}
    wide = visops.remap(planes, torch.from_numpy(x), torch.from_numpy(y), **options)
    exact = wide.detach().permute(1, 2, 0).numpy()
    if dtype == np.uint8:
        exact = exact.clip(0, 255)
    assert np.abs(found - exact).max() <= (1e-3 if dtype == np.float32 else 0.501)


def test_forms() -> None:
    image, (x, y) = picture(), maps()
    expected = visops.remap(image, x, y)
    assert expected.shape == (40, 55, 3)
    tensor = torch.from_numpy(image).permute(2, 0, 1)
    of_tensor = visops.remap(tensor, torch.from_numpy(x), torch.from_numpy(y))
    assert torch.equal(of_tensor, torch.from_numpy(expected).permute(2, 0, 1))
    assert np.array_equal(visops.remap(image[..., 1], x, y), expected[..., 1])
    batch = torch.stack([tensor, tensor.flip(0)])
    x2, y2 = maps(1.1, 5)
    both = visops.remap(batch, np.stack((x, x2)), np.stack((y, y2)))
    assert torch.equal(both[0], of_tensor)
    assert torch.equal(both[1], visops.remap(tensor.flip(0), x2, y2))
    shared = visops.remap(batch, x, y)
    assert torch.equal(shared[0], of_tensor)
    columns, rows = np.meshgrid(np.arange(55), np.arange(40))
    relative = visops.remap(image, x - columns, y - rows, relative=True)
    assert np.abs(relative.astype(int) - expected.astype(int)).max() <= 1
    assert visops.remap(tensor[:, :0].new_zeros((0, 3, 5, 5)), x, y).shape == (0, 3, 40, 55)
    assert np.array_equal(visops.remap(image[::-1], x, y), visops.remap(image[::-1].copy(), x, y))


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.int8, torch.int16, torch.uint16, torch.int32, torch.int64, torch.bfloat16],
)
def test_nearest_copies_any_type(dtype: torch.dtype) -> None:
    x, y = maps()
    numbers = torch.from_numpy(np.random.default_rng(1).integers(0, 2, (2, 30, 40)) * 77)
    image = numbers.to(dtype)
    fill = 1.0
    found = visops.remap(image, x, y, mode="nearest", fill=fill)
    column, row = np.floor(x + 0.5).astype(int), np.floor(y + 0.5).astype(int)
    inside = (column >= 0) & (column < 40) & (row >= 0) & (row < 30)
    expected = numbers[:, row.clip(0, 29), column.clip(0, 39)]
    expected[:, ~torch.from_numpy(inside)] = int(fill)
    assert found.dtype == dtype
    assert torch.equal(found, expected.to(dtype))


def test_positions_that_are_no_numbers() -> None:
    image = torch.ones(1, 4, 4)
    wild = torch.tensor([[np.nan, np.inf, -np.inf, 1e30, 2.0]])
    flat = torch.ones(1, 5)
    assert visops.remap(image, wild, flat).tolist() == [[[0, 0, 0, 0, 1]]]
    for padding in ("replicate", "reflect", "circular"):
        assert (visops.remap(image, wild, flat, padding_mode=padding) == 1).all()
        assert (visops.remap(image.double(), wild, flat, padding_mode=padding) == 1).all()


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_gradients(mode: str) -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(2, 5, 6, dtype=torch.float64, generator=generator).requires_grad_()
    x = (torch.rand(3, 4, dtype=torch.float64, generator=generator) * 5).requires_grad_()
    y = (torch.rand(3, 4, dtype=torch.float64, generator=generator) * 4).requires_grad_()

    def run(image: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return visops.remap(image, x, y, mode=mode)

    torch.autograd.gradcheck(run, (image, x, y))


def test_threads() -> None:
    image, (x, y) = picture(np.float32), maps()
    expected, threads = visops.remap(image, x, y), torch.get_num_threads()
    torch.set_num_threads(1)
    assert np.array_equal(visops.remap(image, x, y), expected)
    torch.set_num_threads(threads)


def test_bad_grids() -> None:
    with pytest.raises(ValueError, match=r"grid is of shape \[2, 2\], must be \[gh, gw, 2\]"):
        visops.displacement_field(np.zeros((2, 2)), (4, 4))
    with pytest.raises(ValueError, match="size is"):
        visops.displacement_field(np.zeros((2, 2, 2)), (0, 4))
