"""Pasted masks: against loops over pixels and their peers; within torch."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from references.masks import by_grid_sample, paste
from roi.crops_cases import BOXES
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torchvision import tv_tensors
from torchvision.models.detection import maskrcnn_resnet50_fpn, roi_heads
from torchvision.models.detection.roi_heads import paste_masks_in_image

from masks.cases import CONVENTIONS, LAYOUTS, MASK_SIZES, SIZE, boxes, probabilities, random_boxes

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
def test_nothing(size: tuple[int, int], shape: tuple[int, ...], out: Any) -> None:
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


SIZES = ((60, 90), (97, 131), (33, 64))


def equal_but_for_ties(ours: torch.Tensor, theirs: torch.Tensor, numbers: torch.Tensor) -> None:
    """Masks are equal where numbers are not within rounding of the threshold."""
    different = ours != theirs
    assert (numbers[different] - 0.5).abs().max() < 1e-5 if different.any() else True
    assert different.float().mean() < 1e-4
    assert ours.any()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("side", [7, 14, 28])
def test_detectron2(size: tuple[int, int], side: int) -> None:
    rng = np.random.default_rng(side)
    masks = probabilities(20, (side, side), side).float()
    boxes = random_boxes(rng, 20, size)
    theirs = by_grid_sample(masks, boxes, size)
    ours = visops.paste_masks(masks, boxes, size, out="float")
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    inside = visops.paste_masks(masks, boxes, size)
    equal_but_for_ties(inside, theirs >= 0.5, theirs)


@pytest.mark.matrix
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("mask", [(28, 28), (14, 28), (40, 10)])
def test_torchvision(size: tuple[int, int], padding: int, mask: tuple[int, int]) -> None:
    """Boxes grow by the masks' width along both axes."""
    rng = np.random.default_rng(padding)
    masks = probabilities(20, mask, seed=padding).float()[:, None]
    boxes = random_boxes(rng, 20, size)
    # Theirs fails for boxes that lie beyond the image.
    boxes = torch.stack(
        [boxes[:, 0::2].clamp(0, size[1]), boxes[:, 1::2].clamp(0, size[0])], 2
    ).flatten(1)
    theirs = paste_masks_in_image(masks, boxes, size, padding)[:, 0]
    ours = visops.paste_masks(
        masks, boxes, size, out="float", convention="torchvision", padding=padding
    )
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    inside = visops.paste_masks(masks, boxes, size, convention="torchvision", padding=padding)
    equal_but_for_ties(inside, theirs > 0.5, theirs)


def test_mask_rcnn(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision's model with our pasting in its place finds the same masks."""
    torch.manual_seed(0)
    model = maskrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=3, min_size=96, max_size=128
    )
    model.eval()
    model.roi_heads.score_thresh = 0.0
    model.roi_heads.detections_per_img = 12
    image = torch.rand(3, 96, 120)
    given: list[tuple[torch.Tensor, torch.Tensor]] = []

    def paste(masks: torch.Tensor, boxes: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        given.append((masks, boxes))
        return visops.paste_masks(masks, boxes, size, out="float", convention="torchvision")[
            :, None
        ]

    with torch.inference_mode():
        theirs = model([image])[0]["masks"]
        for module in (roi_heads, __import__("torchvision").models.detection.transform):
            monkeypatch.setattr(module, "paste_masks_in_image", paste)
        ours = model([image])[0]["masks"]
    assert len(given) == 1
    assert len(theirs) > 3
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    masks, boxes = given[0]
    level = float(masks.median())
    inside = visops.paste_masks(masks, boxes, (96, 120), threshold=level, convention="torchvision")
    close = (theirs[:, 0] - level).abs() < 1e-6
    assert torch.equal(inside & ~close, (theirs[:, 0] > level) & ~close)
    assert inside.any()
    assert (~inside & (theirs[:, 0] > 0)).any()
    assert close.float().mean() < 1e-3


def test_masks_have_no_gradient() -> None:
    masks = probabilities().requires_grad_()
    for out in ("bool", "uint8"):
        assert not visops.paste_masks(masks, boxes(), SIZE, out=out).requires_grad
    where = boxes().requires_grad_()
    assert not visops.paste_masks(masks.detach(), where, SIZE, out="float").requires_grad
    found = visops.paste_masks(masks, where, SIZE, out="float")
    (gradient,) = torch.autograd.grad(found.sum(), where, allow_unused=True)
    assert gradient is None


def test_run_lengths_break_graphs() -> None:
    """They are made between two graphs, as masks_to_rle makes them."""

    def step(masks: Tensor, where: Tensor) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = visops.paste_masks(masks + 0.1, where, SIZE, out="rle")
        return found

    masks, where = probabilities().float().requires_grad_(), boxes()
    torch._dynamo.reset()
    assert torch.compile(step, backend="eager")(masks, where) == step(masks, where)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="its Python reads values"):
        torch.compile(step, backend="eager", fullgraph=True)(masks, where)


class Results(TorchDispatchMode):
    """Collects the tensors that operators return."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        self.seen += [part for part in tree_leaves(found) if isinstance(part, Tensor)]
        return found


def test_run_lengths_need_no_masks() -> None:
    """No operator makes a mask of bools or bytes."""
    masks, where = probabilities().float(), boxes()
    with Results() as found:
        visops.paste_masks(masks, where, SIZE, out="rle")
    dtypes = [part.dtype for part in found.seen]
    assert dtypes[:3] == [torch.int64, torch.int32, torch.int64]  # bits, ends, offsets
    assert not {torch.bool, torch.uint8} & set(dtypes)


def test_memory_is_that_of_the_result() -> None:
    """No operator below allocates more than a mask of bits for each box."""
    masks, where = probabilities(8).float(), boxes()[:8] * 20
    with torch.profiler.profile(profile_memory=True) as profile:
        visops.paste_masks(masks, where, (400, 600), out="packed")
    most = max(event.cpu_memory_usage for event in profile.events())
    assert most <= 8 * 400 * 10 * 8 + 4096


@pytest.mark.parametrize("out", ["bool", "packed", "float", "rle"])
def test_masks_beside_boxes_of_torchvision(out: Any) -> None:
    """Each kind of tensor leaves a call with the other to somebody else."""
    masks, where = probabilities(4).float().requires_grad_(), boxes()[:4]
    typed = tv_tensors.BoundingBoxes(where, format="XYXY", canvas_size=SIZE)  # type: ignore[call-overload]
    expected = visops.paste_masks(masks, where, SIZE, out=out)
    found = visops.paste_masks(tv_tensors.Mask(masks), typed, SIZE, out=out)
    if out == "packed":
        expected, found = expected.bits, found.bits
    if out == "rle":
        assert found == expected
        return
    assert type(found) is Tensor
    assert torch.equal(found, expected)
