"""Values of pasted masks: against loops over pixels."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from references.pasted_masks import paste
from roi.crops_cases import BOXES

from masks.mask_cases import LAYOUTS
from masks.paste_cases import CONVENTIONS, MASK_SIZES, SIZE, boxes, probabilities

every_convention = pytest.mark.parametrize("options", CONVENTIONS, ids=str)


def reference(
    masks: torch.Tensor, size: tuple[int, int], options: dict[str, Any], rows: Any = BOXES
) -> np.ndarray:
    padding = 1 if options["convention"] == "torchvision" else 0
    arguments = (size, options["convention"], options.get("padding", padding))
    return np.stack(
        [paste(m, b, *arguments) for m, b in zip(masks.double().numpy(), rows, strict=True)]
    )


@pytest.mark.matrix
@every_convention
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_numbers_and_masks(dtype: torch.dtype, options: dict[str, Any]) -> None:
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    layouts = list(LAYOUTS.values())
    for i, mask_size in enumerate(MASK_SIZES):
        masks = layouts[i % len(layouts)](probabilities(size=mask_size, seed=i).to(dtype))
        expected = reference(masks, SIZE, options)
        assert np.isnan(expected).any()
        assert np.isfinite(expected).any()
        found = visops.paste_masks(masks, boxes(dtype), SIZE, out="float", **options)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, np.nan_to_num(expected), atol=tolerance)
        for threshold in (None, 0.3, -1.0):
            level = 0.5 if threshold is None else threshold
            inside = np.nan_to_num(expected, nan=-np.inf) > level
            ties = [level] if level > 0 else [0.0]  # numbers of 0 may be just beyond reach
            is_clear = ~(np.abs(expected - ties) < tolerance)
            masked = visops.paste_masks(masks, boxes(dtype), SIZE, threshold=threshold, **options)
            assert masked.dtype == torch.bool
            np.testing.assert_array_equal(masked.numpy()[is_clear], inside[is_clear])
            assert is_clear.mean() > (0.99 if level > 0 else 0.9)


@pytest.mark.matrix
@every_convention
def test_forms_are_alike(options: dict[str, Any]) -> None:
    """In images narrower and wider than words and vectors."""
    for width in (1, 31, 63, 64, 65, 127, 128, 129, 300):
        size = (9, width)
        masks = probabilities(seed=width).float()
        scale = torch.tensor([width / 31, 9 / 23] * 2)
        where = boxes() * scale
        numbers = visops.paste_masks(masks, where, size, out="float", **options)
        is_bool = visops.paste_masks(masks, where, size, threshold=0.4, **options)
        if options["convention"] == "detectron2":
            assert torch.equal(is_bool, numbers >= torch.tensor(0.4))
        else:
            assert torch.equal(is_bool, numbers > torch.tensor(0.4))
        assert is_bool.any()
        as_bytes = visops.paste_masks(masks, where, size, threshold=0.4, out="uint8", **options)
        assert as_bytes.dtype == torch.uint8
        assert torch.equal(as_bytes, is_bool.byte())
        packed = visops.paste_masks(masks, where, size, threshold=0.4, out="packed", **options)
        assert packed.size == size
        assert torch.equal(packed.bits, visops.pack_masks(is_bool).bits)


@every_convention
@pytest.mark.parametrize("compute", [torch.Tensor.clone, torch.Tensor.numpy])
def test_run_lengths(options: dict[str, Any], compute: Any) -> None:
    for width in (1, 31, 64, 129):
        size = (9, width)
        where = boxes() * torch.tensor([width / 31, 9 / 23] * 2)
        masks = probabilities(seed=width).float()
        inside = visops.paste_masks(masks, where, size, threshold=0.4, **options)
        assert inside.any()
        found = visops.paste_masks(
            compute(masks), compute(where), size, threshold=0.4, out="rle", **options
        )
        assert found == visops.masks_to_rle(inside)
    for none in ((0, 3, 3), (2, 0, 3)):
        empty, where = torch.ones(none), torch.zeros(none[0], 4)
        found = visops.paste_masks(compute(empty), compute(where), (4, 5), out="rle", **options)
        assert found == [{"size": [4, 5], "counts": b"d0"}] * none[0]
    nothing = visops.paste_masks(masks[:2], where[:2], (0, 7), out="rle", **options)
    assert nothing == visops.masks_to_rle(torch.zeros(2, 0, 7, dtype=torch.bool))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_halves_are_computed_in_float32(dtype: torch.dtype) -> None:
    masks = probabilities().to(dtype)
    found = visops.paste_masks(masks, boxes(), SIZE, out="float")
    assert found.dtype == dtype
    exact = visops.paste_masks(masks.float(), boxes(), SIZE, out="float")
    assert torch.equal(found, exact.to(dtype))
    inside = visops.paste_masks(masks, boxes(), SIZE)
    assert torch.equal(inside, visops.paste_masks(masks.float(), boxes(), SIZE))


def test_other_forms_of_arguments() -> None:
    masks = probabilities().float()
    expected = visops.paste_masks(masks, boxes(), SIZE)
    assert torch.equal(visops.paste_masks(masks[:, None], boxes(), SIZE), expected)
    assert torch.equal(visops.paste_masks(masks, boxes(torch.float64), SIZE), expected)
    arrays = visops.paste_masks(masks.numpy(), boxes().numpy(), SIZE)
    np.testing.assert_array_equal(arrays, expected.numpy())
    packed = visops.paste_masks(masks.numpy(), boxes().numpy(), SIZE, out="packed")
    assert isinstance(packed.bits, np.ndarray)
    np.testing.assert_array_equal(packed.unpack(), expected.numpy())
    whole = boxes().round().to(torch.int32)
    assert torch.equal(
        visops.paste_masks(masks, whole, SIZE), visops.paste_masks(masks, whole.float(), SIZE)
    )
    for inside in (masks > 0.5, (masks > 0.5).byte()):
        assert torch.equal(
            visops.paste_masks(inside, boxes(), SIZE, out="float"),
            visops.paste_masks(inside.float(), boxes(), SIZE, out="float"),
        )


def test_a_mask_of_its_box_size_is_a_copy() -> None:
    masks = probabilities(1, (11, 8)).float()
    found = visops.paste_masks(masks, torch.tensor([[5.0, 6, 13, 17]]), SIZE, out="float")
    np.testing.assert_allclose(found[0, 6:17, 5:13], masks[0], atol=1e-6)
    assert not found[0, :6].any()
    assert not found[0, 17:].any()


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (4, 4)])
@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 3), (2, 3, 0)])
@pytest.mark.parametrize("out", ["bool", "packed", "float"])
def test_nothing(size: tuple[int, int], shape: tuple[int, ...], out: str) -> None:
    masks = torch.ones(shape, requires_grad=out == "float")
    where = torch.tensor([[0.0, 0, 3, 3]]).repeat(shape[0], 1)
    found = visops.paste_masks(masks, where, size, out=out)
    pixels = found.unpack() if out == "packed" else found
    assert pixels.shape == (shape[0], *size)
    assert not pixels.any()
    if out == "float":
        (gradient,) = torch.autograd.grad(found.sum(), masks)
        assert gradient.shape == shape
        assert not gradient.any()


@every_convention
def test_extreme_numbers(options: dict[str, Any]) -> None:
    """Boxes near the end of float32, and masks that are not finite: defined, within bounds."""
    far = 3e38
    where = torch.tensor(
        [[-far, -far, far, far], [0, 0, far, far], [-far, 0, -far, 9], [1e9, 0, 2e9, 9], [0] * 4]
    )
    masks = torch.ones(5, 4, 4)
    for out in ("bool", "packed", "float"):
        visops.paste_masks(masks, where, SIZE, out=out, **options)
    holes = torch.full((1, 4, 4), torch.nan)
    whole = torch.tensor([[0.0, 0, 31, 23]])
    assert not visops.paste_masks(holes, whole, SIZE, **options).any()
    assert visops.paste_masks(holes, whole, SIZE, out="float", **options)[0, 10, 10].isnan()


@pytest.mark.matrix
def test_columns_near_and_far() -> None:
    """Numbers that lie closer together than pixels, further apart, and a vector's width apart."""
    widths = torch.arange(8, 80, dtype=torch.float64)
    rows = torch.stack([torch.tensor([3.25, 1.0, 3.25 + w, 5.0]) for w in widths]).double()
    masks = torch.rand(len(widths), 3, 40, generator=torch.Generator().manual_seed(0)).double()
    expected = visops.paste_masks(masks, rows, (7, 90), out="float")
    found = visops.paste_masks(masks.float(), rows.float(), (7, 90), out="float")
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-4)
