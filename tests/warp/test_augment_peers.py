"""The augmentation against the libraries that define its semantics, on photographs."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import visops
from torch import Tensor

# Photographs, so that a tolerance says something about pictures.
data = pytest.importorskip("skimage.data")

IDENTITY = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
MODES = ("bilinear", "bicubic")


def photo() -> np.ndarray:
    """Photograph [300, 451, 3], uint8."""
    return data.chelsea()  # type: ignore[no-any-return]


def planes() -> Tensor:
    return torch.from_numpy(photo()).permute(2, 0, 1)


def resize(height: int, width: int, size: tuple[int, int]) -> list[list[float]]:
    """Half-pixel matrix of a resize."""
    return [[size[1] / width, 0, 0], [0, size[0] / height, 0]]


def perspective(size: tuple[int, int]) -> np.ndarray:
    """Source to destination, all of the photo in sight, seen from the side."""
    height, width = size
    return np.array([[0.6, 0.12, 30.0], [-0.05, 0.7, 25.0], [2e-4, 1.5e-4, 1.0]]) @ np.diag(
        [width / 451, height / 300, 1.0]
    )


BORDERS = {
    "constant": "BORDER_CONSTANT",
    "replicate": "BORDER_REPLICATE",
    "reflect": "BORDER_REFLECT_101",
    "symmetric": "BORDER_REFLECT",
    "circular": "BORDER_WRAP",
}
FLAGS = {"nearest": "INTER_NEAREST", "bilinear": "INTER_LINEAR", "bicubic": "INTER_CUBIC"}


class TestOpenCV:
    """OpenCV 5 computes as we do; OpenCV 4 rounds coordinates to 1/32 pixel.

    Under a stronger tilt than this one, OpenCV 5.0's bicubic warpPerspective gives other values
    beyond mirrored borders.
    """

    @pytest.mark.parametrize("padding_mode", BORDERS)
    @pytest.mark.parametrize("mode", FLAGS)
    @pytest.mark.parametrize("kind", ["affine", "perspective"])
    def test_uint8(self, kind: str, mode: Any, padding_mode: Any) -> None:
        cv2 = pytest.importorskip("cv2")
        image, size, fill = photo(), (280, 420), [30, 120, 200]
        matrix = perspective(size)
        matrix = matrix[:2] if kind == "affine" else matrix
        warp = cv2.warpAffine if kind == "affine" else cv2.warpPerspective
        theirs = warp(
            image,
            matrix,
            size[::-1],
            flags=getattr(cv2, FLAGS[mode]),
            borderMode=getattr(cv2, BORDERS[padding_mode]),
            borderValue=fill,
        )
        result = visops.augment(
            [image],
            matrix,
            size,
            mode=mode,
            padding_mode=padding_mode,
            fill=fill,
            out_dtype=torch.uint8,
        )
        ours = result[0].permute(1, 2, 0).numpy()
        difference = np.abs(ours.astype(int) - theirs.astype(int))
        fifth = int(cv2.__version__.split(".")[0]) >= 5
        if mode == "nearest":
            assert np.mean(difference > 0) <= (0.001 if fifth else 0.02)
        elif fifth:
            assert difference.max() <= 1
            assert np.mean(difference > 0) <= 0.002
        else:
            assert difference.max() <= 16
            assert difference.mean() <= 0.5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(224, 224), (100, 451), (300, 61), (31, 47), (700, 200), (1, 1)])
def test_interpolate(mode: str, size: tuple[int, int]) -> None:
    """Axis-aligned antialias is F.interpolate's: 1e-5 in float32, 1e-12 in float64.

    With uint8 results, one level on at most 0.2 % of values.
    """
    matrix = resize(300, 451, size)
    options: dict[str, Any] = {"mode": mode, "antialias": True, "convention": "half_pixel"}
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        image = planes()[None].to(dtype) / 255
        expected = F.interpolate(image, size, mode=mode, antialias=True)
        result = visops.augment(image, matrix, size, out_dtype=dtype, fill=0.5, **options)
        torch.testing.assert_close(result, expected, rtol=0, atol=tolerance)
    exact = F.interpolate(planes()[None].double(), size, mode=mode, antialias=True)
    result = visops.augment(planes()[None], matrix, size, out_dtype=torch.uint8, **options)
    difference = (result.double() - exact.round().clamp(0, 255)).abs()
    assert difference.max() <= 1
    assert difference.count_nonzero() <= max(1, 0.002 * difference.numel())


@pytest.mark.parametrize("mode", MODES)
def test_gradient_of_interpolate(mode: str) -> None:
    size = (37, 61)
    image = (planes()[None, :, 40:140, 60:240].double() / 255).requires_grad_()
    options: dict[str, Any] = {"mode": mode, "antialias": True, "convention": "half_pixel"}
    results = (
        F.interpolate(image, size, mode=mode, antialias=True),
        visops.augment(image, resize(100, 180, size), size, out_dtype=torch.float64, **options),
    )
    grads = [torch.autograd.grad(r.square().sum(), image)[0] for r in results]
    torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=1e-12)


def functional() -> Any:
    return pytest.importorskip("torchvision.transforms.v2.functional")


def normalized(image: Tensor) -> Tensor:
    f = functional()
    return f.normalize(f.to_dtype(image, torch.float32, scale=True), MEAN, STD)  # type: ignore[no-any-return]


def test_torchvision_resized_crop_flip_normalize() -> None:
    """The chain of image classification: crop, resize, flip, float, normalise, in one pass.

    torchvision rounds to uint8 in the middle and at the end of the resize: 1 / 255 / std.
    """
    f = functional()
    top, left, height, width, size = 25, 110, 231, 301, (224, 224)
    for flip in (False, True):
        image = planes()
        chain = f.resized_crop(image, top, left, height, width, list(size), antialias=True)
        chain = normalized(f.horizontal_flip(chain) if flip else chain)
        sx, sy = size[1] / width, size[0] / height
        matrix = [[sx, 0, -left * sx], [0, sy, -top * sy]]
        if flip:
            matrix[0] = [-sx, 0, size[1] + left * sx]
        result = visops.augment(
            [image],
            matrix,
            size,
            antialias=True,
            convention="half_pixel",
            window=[left, top, left + width, top + height],
            mean=MEAN,
            std=STD,
        )
        assert (result[0] - chain).abs().max() <= 1.02 / 255 / min(STD)
        # In floating point there is nothing but rounding between them.
        exact = f.resized_crop(image / 255, top, left, height, width, list(size), antialias=True)
        exact = f.normalize(f.horizontal_flip(exact) if flip else exact, MEAN, STD)
        torch.testing.assert_close(result[0], exact, rtol=0, atol=1e-4)


def test_torchvision_rotate() -> None:
    f = functional()
    from torchvision.transforms import InterpolationMode

    image = planes() / 255
    expected = f.rotate(image, -27.0, InterpolationMode.BILINEAR, fill=None)
    matrix = visops.get_affine_matrix((451 / 2, 300 / 2), 27.0)
    result = visops.augment(image[None], matrix, (300, 451), convention="half_pixel")
    assert (result[0] - expected).abs().max() <= 2e-3  # its float32 grid is off by some 1e-4 pixel


def test_torchvision_perspective() -> None:
    f = functional()
    from torchvision.transforms import InterpolationMode

    start = [[0, 0], [450, 0], [450, 299], [0, 299]]
    end = [[40, 30], [420, 10], [400, 280], [15, 250]]
    image = planes() / 255
    expected = f.perspective(image, start, end, InterpolationMode.BILINEAR, fill=None)
    # torchvision maps the centres of these pixels onto each other.
    rows = []
    for (x, y), (u, v) in zip(start, end, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y, u])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y, v])
    system = np.array(rows, np.float64)
    solution = np.linalg.solve(system[:, :8], system[:, 8])
    matrix = np.append(solution, 1.0).reshape(3, 3)
    result = visops.augment(image[None], matrix, (300, 451), convention="half_pixel")
    inside = visops.augment(
        torch.ones_like(image)[None], matrix, (300, 451), convention="half_pixel"
    )
    wrong = ((result - expected).abs() > 5e-3) & (inside == 1)
    assert not wrong.any()


def luma_rows() -> np.ndarray:
    return np.tile([0.2989, 0.587, 0.114], (3, 1))


def blend(factor: float, other: np.ndarray) -> np.ndarray:
    return factor * np.eye(3) + (1 - factor) * other


def with_offset(linear: Any, offset: Any = 0.0) -> np.ndarray:
    return np.column_stack([linear, np.broadcast_to(offset, (3,))])


def test_torchvision_colour_jitter() -> None:
    """Brightness, contrast, saturation and grey as matrices, clamped after each as there.

    torchvision rounds uint8 in between; in floating point the two agree to 1e-4.
    """
    f = functional()
    image = planes() / 255
    chain = f.adjust_brightness(image, 1.4)
    grey_mean = f.rgb_to_grayscale(chain).mean().item()
    chain = f.adjust_contrast(chain, 1.7)
    chain = f.adjust_saturation(chain, 0.3)
    steps = [
        with_offset(1.4 * np.eye(3)),
        with_offset(1.7 * np.eye(3), (1 - 1.7) * grey_mean),
        with_offset(blend(0.3, luma_rows())),
    ]
    options: dict[str, Any] = {"mean": MEAN, "std": STD}
    color = np.stack(steps)[None]
    result = visops.augment(
        planes()[None], IDENTITY, (300, 451), color=color, clamp=True, **options
    )
    expected = f.normalize(chain, MEAN, STD)
    torch.testing.assert_close(result[0], expected, rtol=0, atol=1e-4)
    # Without clamping the same maps fold into one, and colours differ.
    free = visops.augment(planes()[None], IDENTITY, (300, 451), color=color, **options)
    assert (free - result).abs().max() > 0.1
    grey = visops.augment([photo()], IDENTITY, (300, 451), color=with_offset(luma_rows()))
    expected = f.rgb_to_grayscale(image, num_output_channels=3)
    torch.testing.assert_close(grey[0], expected, rtol=0, atol=1e-5)


def test_torchvision_erase_and_dtypes() -> None:
    f = functional()
    image = planes()
    expected = f.erase(normalized(image), 40, 60, 100, 150, torch.tensor(0.0))
    result = visops.augment(
        image[None], IDENTITY, (300, 451), mean=MEAN, std=STD, erase=[[60, 40, 210, 140]]
    )
    torch.testing.assert_close(result[0], expected, rtol=0, atol=1e-5)
    assert (result[0, :, 40:140, 60:210] == 0).all()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        expected = f.to_dtype(image, dtype, scale=True)
        result = visops.augment([photo()], IDENTITY, (300, 451), out_dtype=dtype)
        torch.testing.assert_close(result[0], expected, rtol=torch.finfo(dtype).eps, atol=0)


def test_pillow() -> None:
    """Pillow's resize of a box is the same filter, in fixed point: one level."""
    pil = pytest.importorskip("PIL.Image")
    box, size = (60.0, 20.0, 391.0, 260.0), (96, 128)
    for mode in ("bilinear", "bicubic", "lanczos"):
        expected = pil.fromarray(photo()).resize(size[::-1], pil.Resampling[mode.upper()], box=box)
        x1, y1, x2, y2 = box
        sx, sy = size[1] / (x2 - x1), size[0] / (y2 - y1)
        result = visops.augment(
            [photo()],
            [[sx, 0, -x1 * sx], [0, sy, -y1 * sy]],
            size,
            mode=mode,
            antialias=True,
            convention="half_pixel",
            out_dtype=torch.uint8,
        )
        ours = result[0].permute(1, 2, 0).numpy().astype(int)
        # Pillow looks beyond the box, and rounds between its two passes.
        assert np.abs(ours - np.asarray(expected).astype(int)).max() <= 2
        assert np.mean(ours != np.asarray(expected)) <= 0.35
