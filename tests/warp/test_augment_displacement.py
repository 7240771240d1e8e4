"""visops.augment with a displacement: one interpolation with the matrix, then the rest."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from references.remap import displaced_positions
from references.remap import remap as reference
from torch import Tensor


def problem(batch: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Photos, displacements and matrices from source to destination."""
    generator = np.random.default_rng(0)
    photos = torch.from_numpy(generator.integers(0, 256, (batch, 3, 19, 23), np.uint8))
    shifts = torch.from_numpy(generator.normal(0, 1.5, (batch, 4, 5, 2)))
    matrix = torch.tensor([[1.2, 0.3, -2.0], [-0.2, 0.9, 1.5]]).double().repeat(batch, 1, 1)
    return photos, shifts, matrix


@pytest.mark.matrix
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("half_pixel", [False, True])
@pytest.mark.parametrize("spline", [False, True])
def test_values(mode: str, half_pixel: bool, spline: bool) -> None:
    photos, shifts, matrix = problem()
    options: dict[str, Any] = {
        "mode": mode,
        "convention": "half_pixel" if half_pixel else "integer",
        "displacement_grid": "spline" if spline else "bilinear",
        "padding_mode": "reflect",
    }
    wide = photos.double() / 255
    found = visops.augment(
        wide, matrix, (14, 16), displacement=shifts, out_dtype=torch.float64, **options
    )
    half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]]) if half_pixel else np.eye(3)
    for i in range(2):
        full = np.vstack((matrix[i].numpy(), (0, 0, 1)))
        back = np.linalg.inv(half) @ np.linalg.inv(full) @ half
        x, y = displaced_positions(shifts[i].numpy(), (14, 16), back, spline)
        wanted = reference(wide[i].numpy(), x, y, mode, "reflect", [0, 0, 0])
        np.testing.assert_allclose(found[i].numpy(), wanted, rtol=0, atol=1e-8)
    narrow = visops.augment(photos, matrix, (14, 16), displacement=shifts, **options)
    assert narrow.dtype == torch.float32
    assert (narrow.double() - found).abs().max() <= (1e-4 if mode != "nearest" else 1e-6)
    whole = visops.augment(
        photos, matrix, (14, 16), displacement=shifts, out_dtype=torch.uint8, **options
    )
    clipped = (found * 255).clamp(0, 255)
    assert (whole.double() - clipped).abs().max() <= 0.51


def test_nothing_displaced_is_the_pass_without() -> None:
    photos, shifts, matrix = problem()
    options: dict[str, Any] = {"mean": 0.4, "std": 0.3, "fill": 7.0}
    wanted = visops.augment(photos, matrix, (14, 16), **options)
    found = visops.augment(photos, matrix, (14, 16), displacement=shifts * 0, **options)
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-4)
    perspective = torch.cat(
        (matrix, torch.tensor([0.002, -0.001, 1.0]).double().expand(2, 1, 3)), 1
    )
    wanted = visops.augment(photos, perspective, (14, 16), padding_mode="replicate")
    found = visops.augment(
        photos, perspective, (14, 16), padding_mode="replicate", displacement=shifts * 0
    )
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-3)


def test_the_rest_of_the_pass_follows() -> None:
    """Colour, normalisation, erasing, dtype and layout are those of a pass over the bent photos."""
    photos, shifts, matrix = problem()
    color = torch.tensor([[0.5, 0.2, 0, 0.1], [0, 0.7, 0, 0], [0.1, 0, 0.8, 0]]).double()
    erase = torch.tensor([[[1, 2, 5, 6]], [[3, 3, 9, 9]]])
    rest: dict[str, Any] = {
        "color": color,
        "clamp": True,
        "mean": (0.4, 0.5, 0.6),
        "std": 0.2,
        "erase": erase,
        "erase_value": 3.0,
    }
    bent = visops.augment(photos, matrix, (14, 16), displacement=shifts, fill=9)
    still = torch.eye(2, 3)
    for dtype in (torch.float32, torch.float16, torch.uint8):
        for form in (torch.contiguous_format, torch.channels_last):
            own: dict[str, Any] = {**rest, "out_dtype": dtype, "memory_format": form}
            found = visops.augment(photos, matrix, (14, 16), displacement=shifts, fill=9, **own)
            wanted = visops.augment(bent, still, (14, 16), mode="nearest", **own)
            assert torch.equal(found, wanted)
            assert found.is_contiguous(memory_format=form)
    out = torch.empty(2, 3, 14, 16, dtype=torch.float16)
    assert visops.augment(photos, matrix, (14, 16), displacement=shifts, out=out) is out
    wanted = visops.augment(photos, matrix, (14, 16), displacement=shifts, out_dtype=torch.float16)
    assert torch.equal(out, wanted)


def test_forms_of_images_and_displacements() -> None:
    photos, shifts, matrix = problem()
    wanted = visops.augment(photos, matrix, (14, 16), displacement=shifts)
    listed = visops.augment(list(photos), matrix, (14, 16), displacement=shifts)
    assert torch.equal(listed, wanted)
    arrays = photos.permute(0, 2, 3, 1).contiguous().numpy()
    by_array = visops.augment(arrays, matrix.numpy(), (14, 16), displacement=shifts.numpy())
    assert torch.equal(by_array, wanted)
    ragged = visops.augment([photos[0], photos[1][:, :11]], matrix, (14, 16), displacement=shifts)
    assert torch.equal(ragged[0], wanted[0])
    one = visops.augment(photos, matrix[0], (14, 16), displacement=shifts[0])
    assert torch.equal(one[0], wanted[0])
    field = torch.stack(visops.displacement_field(shifts, (14, 16)), -1)
    dense = visops.augment(photos, matrix, (14, 16), displacement=field)
    torch.testing.assert_close(dense, wanted, rtol=0, atol=1e-4)


def test_lists_of_images_that_differ() -> None:
    photos, shifts, matrix = problem()
    for other, message in (
        (photos[1][:1], r"images\[1\] has shape \[1, 19, 23\], must be \[3, height, width\]"),
        (photos[1].float(), r"images\[1\] has dtype torch.float32, images\[0\] has torch.uint8"),
    ):
        with pytest.raises(RuntimeError, match=message):
            visops.augment([photos[0], other], matrix, (14, 16), displacement=shifts, layout="CHW")


def test_gradients() -> None:
    generator = np.random.default_rng(0)
    images = torch.from_numpy(generator.uniform(0, 1, (2, 3, 5, 6))).requires_grad_()
    shifts = torch.from_numpy(generator.normal(0, 0.7, (2, 2, 3, 2))).requires_grad_()
    matrix = torch.tensor([[1.1, 0.2, 0.3], [-0.1, 0.9, 0.2]]).double().requires_grad_()
    color = torch.eye(3, 4).double().requires_grad_()

    def run(images: Tensor, shifts: Tensor, matrix: Tensor, color: Tensor) -> Tensor:
        return visops.augment(
            images,
            matrix,
            (4, 5),
            displacement=shifts,
            displacement_grid="spline",
            color=color,
            mean=0.3,
            std=0.5,
            out_dtype=torch.float64,
        )

    torch.autograd.gradcheck(run, (images, shifts, matrix, color))


def test_compile() -> None:
    torch.compiler.reset()
    photos, shifts, matrix = problem()

    def run(photos: Tensor, shifts: Tensor) -> Tensor:
        return visops.augment(photos, matrix, (14, 16), displacement=shifts, mean=0.5)

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(photos, shifts), run(photos, shifts))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"displacement": torch.zeros(3, 4)}, "displacement has shape [3, 4], must be [gh, gw, 2]"),
        ({"displacement": torch.zeros(3, 4, 4, 2)}, "must be [gh, gw, 2] or [2, gh, gw, 2]"),
        ({"displacement": torch.zeros(0, 4, 2)}, "displacement has shape [0, 4, 2]"),
        ({"displacement_grid": "cubic"}, "displacement_grid is 'cubic', must be 'bilinear' or"),
        ({"antialias": True}, "antialias can't be given together with displacement"),
        ({"window": [0, 0, 5, 5]}, "window can't be given together with displacement"),
        ({"matrix": torch.zeros(2, 3)}, "matrix is singular"),
        ({"mode": "lanczos"}, "lanczos"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    photos, shifts, matrix = problem()
    given: dict[str, Any] = {"matrix": matrix, "displacement": shifts, **options}
    with pytest.raises((RuntimeError, ValueError)) as error:
        visops.augment(photos, given.pop("matrix"), (14, 16), **given)
    assert "visops." in str(error.value)
    assert message in str(error.value)
