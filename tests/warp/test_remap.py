"""visops.remap: OpenCV's values, torch's operators, references, gradients, shared maps."""

import platform
from typing import Any

import cv2
import numpy as np
import pytest
import torch
import visops
from kernels import every_slot, use_slot
from references.remap import displaced_positions
from references.remap import remap as reference
from torch import Tensor
from visops.warp.remap_autograd import grid_weights, remap

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
def test_values_are_opencv_s_and_torch_s(mode: Any, padding: Any, dtype: Any) -> None:
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


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64", "uint64"])
def test_integers_saturate_where_it_interpolates(dtype: str, mode: Any) -> None:
    """Also where the greatest integer is rounded up to a float that the type can't hold."""
    info = np.iinfo(dtype)
    image = np.full((4, 8), info.max, dtype)
    image[:, :4] = info.min
    image[:, -1] -= np.array(100 if info.bits > 8 else 0, dtype)
    x, y = np.meshgrid(np.arange(8) + 0.25, np.arange(4))
    found = visops.remap(image, x, y, mode=mode, padding_mode="replicate")
    assert (found[:, :3] == info.min).all()
    assert (found[:, 4:6] == info.max).all()
    if info.bits == 64:
        assert (found[:, 6:] == info.max).all()  # the float that they are all read as


def test_positions_that_are_no_numbers() -> None:
    image = torch.ones(1, 4, 4)
    wild = torch.tensor([[np.nan, np.inf, -np.inf, 1e30, 2.0]])
    flat = torch.ones(1, 5)
    assert visops.remap(image, wild, flat).tolist() == [[[0, 0, 0, 0, 1]]]
    for padding in ("replicate", "reflect", "circular"):
        assert (visops.remap(image, wild, flat, padding_mode=padding) == 1).all()
        assert (visops.remap(image.double(), wild, flat, padding_mode=padding) == 1).all()


def test_bad_grids() -> None:
    with pytest.raises(ValueError, match=r"grid is of shape \[2, 2\], must be \[gh, gw, 2\]"):
        visops.displacement_field(np.zeros((2, 2)), (4, 4))
    with pytest.raises(ValueError, match="size is"):
        visops.displacement_field(np.zeros((2, 2, 2)), (0, 4))


TORCH_MODES = ("bilinear", "nearest", "bicubic")
TORCH_PADDINGS = ("constant", "replicate", "reflect", "symmetric", "circular")


def problem(
    dtype: torch.dtype = torch.float64, batch: int = 2, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Images, a grid of displacements and matrices."""
    generator = np.random.default_rng(seed)
    images = torch.from_numpy(generator.uniform(0, 1, (batch, 2, 7, 9))).to(dtype)
    grid = torch.from_numpy(generator.normal(0, 1, (batch, 2, 3, 4)))
    matrix = torch.from_numpy(generator.normal(0, 0.1, (batch, 3, 3))) + torch.eye(3)
    matrix[:, 2] = torch.tensor([0.01, -0.02, 1.0])
    return images, grid, matrix.double()


@pytest.mark.matrix
@pytest.mark.parametrize("mode", TORCH_MODES)
@pytest.mark.parametrize("spline", [False, True])
@every_slot
def test_values(slot: str, mode: str, spline: bool) -> None:
    """The definition in float64, with and without a grid and a matrix, for every padding."""
    with use_slot(slot):
        for seed, padding in enumerate(TORCH_PADDINGS):
            images, grid, matrix = problem(seed=seed)
            size, kind = (6, 8), "spline" if spline else "bilinear"
            fill = [0.25, 0.75]
            found = remap(images, *grid.unbind(1), size, matrix, kind, True, mode, padding, fill)
            for i in range(2):
                own = grid[i].permute(1, 2, 0).numpy()
                x, y = displaced_positions(own, size, matrix[i].numpy(), spline)
                wanted = reference(images[i].numpy(), x, y, mode, padding, fill)
                np.testing.assert_allclose(found[i].numpy(), wanted, rtol=0, atol=1e-9)
                maps = torch.from_numpy(np.stack((x, y)))[None]
                dense = remap(
                    images[i : i + 1],
                    *maps.unbind(1),
                    size,
                    None,
                    "dense",
                    False,
                    mode,
                    padding,
                    fill,
                )
                np.testing.assert_allclose(dense[0].numpy(), wanted, rtol=0, atol=1e-9)


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.bfloat16, torch.float32])
def test_dtypes(dtype: torch.dtype) -> None:
    """Rounded once to the images' type, or not at all, with white at 1."""
    white = 255.0 if dtype == torch.uint8 else 1.0
    images, grid, matrix = problem()
    stored = (images * white).to(dtype)
    for mode in TORCH_MODES:
        options = (*grid.unbind(1), (6, 8), matrix, "spline", True, mode, "replicate", [0.0])
        wanted = remap(stored.double(), *options)
        found = remap(stored, *options)
        assert found.dtype == dtype
        step = {torch.uint8: 0.501, torch.float16: 1e-3, torch.bfloat16: 8e-3}.get(dtype, 1e-5)
        clipped = wanted.clamp(0, 255) if dtype == torch.uint8 else wanted
        if mode == "nearest":
            assert torch.equal(found.double(), wanted)
        assert (found.double() - clipped).abs().max() <= step
        floats = remap(stored, *options, True)
        assert floats.dtype == torch.float32
        torch.testing.assert_close(floats, (wanted / white).float(), rtol=0, atol=2e-5)


def test_a_point_for_each_pixel_is_the_field() -> None:
    images, _, _ = problem(torch.float32)
    field = torch.from_numpy(np.random.default_rng(1).normal(0, 2, (2, 2, 13, 17))).float()
    options = (None, True, "bilinear", "reflect", [0.0])
    dense = remap(images, *field.unbind(1), (13, 17), None, "dense", *options[1:])
    assert torch.equal(
        remap(images, *field.unbind(1), (13, 17), None, "bilinear", *options[1:]), dense
    )
    dx, dy = visops.displacement_field(field[0, :, :4, :5].permute(1, 2, 0), (13, 17), spline=True)
    by_field = visops.remap(images[0], dx, dy, relative=True, padding_mode="reflect")
    points = field[:1, :, :4, :5].contiguous()
    own = remap(images[:1], *points.unbind(1), (13, 17), None, "spline", *options[1:])
    torch.testing.assert_close(own[0], by_field, rtol=0, atol=1e-5)


def test_layouts_and_shared_maps() -> None:
    images, grid, matrix = problem(torch.float32)
    options = ((6, 8), "spline", True, "bicubic", "reflect", [0.5])

    def run(images: Tensor, grid: Tensor, matrix: Tensor | None) -> Tensor:
        return remap(images, *grid.unbind(1), options[0], matrix, *options[1:])

    wanted = run(images, grid, matrix)
    wide = torch.zeros(2, 2, 14, 27)
    wide[:, :, ::2, ::3] = images
    last = images.contiguous(memory_format=torch.channels_last)
    for form in (last, wide[:, :, ::2, ::3], images.transpose(2, 3).contiguous().transpose(2, 3)):
        assert torch.equal(run(form, grid, matrix), wanted)
    assert torch.equal(
        run(images, grid.half().double(), matrix)[:1], run(images[:1], grid[:1].half(), matrix[:1])
    )
    shared = run(images, grid[:1], matrix[:1])
    assert torch.equal(shared[1:], run(images[1:], grid[:1], matrix[:1]))
    same = images[:1].expand(2, -1, -1, -1)
    assert torch.equal(run(same, grid, matrix)[1:], run(images[:1], grid[1:], matrix[1:]))


@pytest.mark.matrix
@pytest.mark.parametrize("mode", TORCH_MODES)
def test_pixels_without_a_tap_are_the_fill_itself(mode: str) -> None:
    """An infinite fill would become NaN where it is blended with itself."""
    images = torch.rand(1, 2, 5, 6)
    maps = torch.tensor([[[-40.0, 2.5, 90.0]]]), torch.tensor([[[1.0, 1.5, 2.0]]])
    options = (1, 3), None, "dense", False, mode, "constant", [float("inf"), 0.1]
    found = remap(images, *maps, *options)
    assert found[0, :, 0, 0].tolist() == found[0, :, 0, 2].tolist()
    assert torch.equal(found[0, :, 0, 0], torch.tensor([float("inf"), 0.1]))
    assert found[0, :, 0, 1].isfinite().all()


@pytest.mark.parametrize("mode", TORCH_MODES)
@pytest.mark.parametrize("grid", ["dense", "bilinear", "spline"])
def test_gradients_through_maps(mode: str, grid: str) -> None:
    """Images, map and matrix, one for each sample or shared; and second derivatives."""
    for seed, padding in enumerate(TORCH_PADDINGS):
        images, points, matrix = problem(batch=2, seed=seed)
        images, points = images[:, :, :4, :5].contiguous(), points[: 1 + seed % 2]
        matrix = matrix[: 1 + seed % 3 % 2]
        size = (3, 4) if grid == "dense" else (4, 3)

        def run(
            images: Tensor, points: Tensor, matrix: Tensor, size: Any = size, padding: str = padding
        ) -> Tensor:
            return remap(images, *points.unbind(1), size, matrix, grid, True, mode, padding, [0.3])

        own = [tensor.requires_grad_() for tensor in (images, points, matrix)]
        torch.autograd.gradcheck(run, own)
        if seed == 0 and mode != "nearest":
            torch.autograd.gradgradcheck(run, own)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_both_forms_of_the_gradient(mode: str) -> None:
    """Where second derivatives are wanted, torch's operators compute what grid_sample does else."""
    for padding in TORCH_PADDINGS:
        given = problem(seed=3)
        images, points, matrix = (tensor.requires_grad_() for tensor in given)
        options = ((6, 5), matrix, "spline", True, mode, padding, [0.3])
        loss = remap(images, *points.unbind(1), *options).square().sum()
        plain = torch.autograd.grad(loss, (images, points, matrix), retain_graph=True)
        recorded = torch.autograd.grad(loss, (images, points, matrix), create_graph=True)
        for ours, other in zip(plain, recorded, strict=True):
            torch.testing.assert_close(ours, other.detach(), rtol=0, atol=1e-11)
    empty = torch.zeros(0, 2, 7, 9, requires_grad=True)
    remap(empty, *points.detach()[:1].unbind(1), (6, 5), None, *options[2:]).sum().backward()
    assert empty.grad is not None


def test_gradients_of_positions_that_are_limited() -> None:
    """No gradient flows to a position that is no number, or beyond the limit."""
    images = torch.rand(1, 1, 4, 4, dtype=torch.float64)
    maps = torch.tensor([[[[float("nan"), 1e30, 1.5]], [[1.0, 1.0, 1.0]]]]).double()
    maps.requires_grad_()
    options = ((1, 3), None, "dense", False, "bilinear", "replicate", [0.0])
    remap(images, *maps.unbind(1), *options).sum().backward()
    assert maps.grad is not None
    assert maps.grad[0, 0, 0, :2].tolist() == [0, 0]
    assert maps.grad[0, 0, 0, 2] != 0


def test_compile() -> None:
    """First for one size, then for all."""
    torch.compiler.reset()

    def run(images: Tensor, grid: Tensor) -> Tensor:
        dx, dy = visops.displacement_field(grid, images.shape[-2:], spline=True)
        return visops.remap(images, dx, dy, relative=True)

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    for size in ((8, 9), (12, 7)):
        images = torch.rand(2, 3, *size, requires_grad=True)
        grid = torch.randn(2, 3, 4, 2, requires_grad=True)
        found, wanted = compiled(images, grid), run(images, grid)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)
        ours = torch.autograd.grad(found.square().sum(), (images, grid))
        theirs = torch.autograd.grad(wanted.square().sum(), (images, grid))
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_grid_weights_add_up() -> None:
    for spline in (False, True):
        for side, points in ((7, 3), (1, 1), (4, 4), (5, 1), (2, 9)):
            weights = grid_weights(side, points, spline, torch.float64, torch.device("cpu"))
            torch.testing.assert_close(weights.sum(1), torch.ones(side, dtype=torch.float64))


def bent(images: Tensor, points: Tensor, matrix: Tensor, color: Tensor) -> Tensor:
    """Augment images that are displaced by a grid of points [B, gh, gw, 2]."""
    return visops.augment(
        images,
        matrix,
        (4, 5),
        displacement=points,
        displacement_grid="spline",
        color=color,
        mean=0.3,
        std=0.5,
        out_dtype=torch.float64,
    )


def test_gradients_and_compilation_of_displaced_augmentations() -> None:
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.uniform(0, 1, (2, 3, 5, 6))).requires_grad_()
    points = torch.from_numpy(rng.normal(0, 0.7, (2, 2, 3, 2))).requires_grad_()
    matrix = torch.tensor([[1.1, 0.2, 0.3], [-0.1, 0.9, 0.2]]).double().requires_grad_()
    given = (images, points, matrix, torch.eye(3, 4).double().requires_grad_())
    torch.autograd.gradcheck(bent, given)
    torch.compiler.reset()
    compiled = torch.compile(bent, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*given), bent(*given))
