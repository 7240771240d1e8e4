"""Programs of torch.export, torch.compile and torch.jit: masks, sizes that depend on values."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from contract.calls import tensors_of
from contract.test_export import dynamic_shapes
from operators.matrices import of_sizes
from roi.align_cases import same_bits
from torch import Tensor
from torch._dynamo.testing import CompileCounter

from exporting.inputs import STEPS, images, suppressed
from exporting.onnx_programs import Call


def packed_masks(images: Tensor) -> tuple[Tensor, ...]:
    packed = visops.pack_masks(images > 0.5)
    area, boxes = visops.mask_area(packed), visops.masks_to_boxes(packed)
    return packed.bits, packed.unpack(), area, boxes, visops.mask_iou(packed, packed)


def selected_masks(images: Tensor) -> tuple[Tensor, ...]:
    packed = visops.pack_masks(images > 0.5)
    scores = images.mean((-2, -1))
    kept = visops.mask_nms(packed, scores, 0.3)
    overlaps = visops.mask_iou(packed, packed, kind="boundary")
    return kept, overlaps, *visops.merge_masks(packed, scores), visops.stability_score(images, 0.5)


def test_a_list_of_unknown_length_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"visops\.nms_match: .* export torch\.ops\.visops\.nms"):
        torch.export.export(Call(lambda b, s: visops.nms_match(b, s, 0.5)), suppressed(0)[:2])


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("first", [40, 100])
def test_masks_of_every_width(first: int, strict: bool) -> None:
    """A program of packed masks works on both sides of 64 columns, wherever it was made."""
    boxes = torch.tensor([[1.0, 2, 10, 9], [3, 3, 20, 20], [0, 0, 5, 5]])

    def call(images: Tensor) -> list[Tensor]:
        size = (images.shape[-2], images.shape[-1])
        packed = visops.pack_masks(images > 0.5)
        again = visops.masks.PackedMasks(packed.bits, size)
        pasted = visops.paste_masks(torch.ones(3, 4, 4), boxes, size, out="packed")
        return [
            *tensors_of(selected_masks(images)),
            *tensors_of(packed_masks(images)),
            *(torch.cat([packed.bits, again[:1].bits]), visops.mask_iou(packed, again)),
            pasted.bits,
        ]

    shapes = (({2: torch.export.Dim.DYNAMIC},),)
    images = torch.rand(3, 9, 200)
    given = (images[..., :first].contiguous(),)
    program = torch.export.export(Call(call), given, dynamic_shapes=shapes, strict=strict).module()
    for width in (1, 40, 64, 65, 100, 200):
        part = images[..., :width].contiguous()
        pairs = zip(tensors_of(program(part)), call(part), strict=True)
        assert all(same_bits(a, b) for a, b in pairs), width


def _kept(images: Tensor, boxes: Tensor, scores: Tensor) -> list[Tensor]:
    """Call what asks for batch sizes, with one that a suppression has left open."""
    boxes = boxes[visops.nms(boxes, scores, 0.5, score_threshold=0.0)]
    crops = visops.crop_rois(images, [boxes], 16)
    matrix = visops.get_affine_matrix(center=boxes[:, :2], angle=boxes[:, 0])
    kernel = torch.linspace(-1, 1, 9).view(3, 3)
    turned = crops.transpose(2, 3)  # not contiguous
    points = boxes[:, None, :2] / 80
    field = torch.linspace(0, 3, 12).view(1, 2, 3, 2)
    return [
        visops.gaussian_blur(crops, 5, 1.0),
        visops.filter2d(crops, (kernel[0], kernel[1]), border="constant", fill=1.0),
        visops.convolve2d(crops, torch.ones(41, 41), boundary="wrap", method="direct"),
        visops.convolve2d(crops, kernel, method="im2col"),
        visops.augment(crops, matrix, (8, 9), layout="CHW", color=torch.eye(3, 4)),
        visops.augment(crops, torch.eye(2, 3)[None], (2, 3), layout="CHW", displacement=field),
        visops.warp_perspective(crops, torch.eye(3)[None], (8, 9)),
        visops.warp_affine(turned, matrix),
        visops.remap(crops, points.expand(-1, 4, -1), points.expand(-1, 4, -1)),
        visops.point_sample(crops[:, :1], points),
        visops.point_sample(turned, torch.ones(1, 2, 2) / 3),
        visops.roi_align(torch.cat([turned, turned.new_zeros(1, 3, 16, 16)]), [boxes / 8], 3),
        *tensors_of(visops.connected_components(crops > 0.5, return_stats=True)),
    ]


@pytest.mark.parametrize("way", ["export", "strict", "compile"])
def test_sizes_that_depend_on_values(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count = {0: torch.export.Dim.DYNAMIC}
    images, (boxes, scores, _) = torch.rand(1, 3, 90, 80), suppressed(0)
    given = images, boxes, scores
    program: Any
    if way == "compile":
        torch._dynamo.reset()
        monkeypatch.setattr(torch._dynamo.config, "capture_dynamic_output_shape_ops", True)
        monkeypatch.setattr(torch._dynamo.config, "capture_scalar_outputs", True)
        program = torch.compile(_kept, backend="aot_eager", fullgraph=True)
    else:
        program = torch.export.export(
            Call(_kept), given, dynamic_shapes=(({}, count, count),), strict=way == "strict"
        ).module()
    for step in (0, 1, 2):
        boxes, scores, _ = suppressed(step)
        for part in ((images, boxes, scores), (images, boxes[:2], scores[:2] - 0.5 * step)):
            pairs = zip(tensors_of(program(*part)), _kept(*part), strict=True)
            assert all(same_bits(a, b) for a, b in pairs)


def inputs_of_sizes(step: int) -> tuple[Tensor, Tensor]:
    return images(step), suppressed(step)[0]


@pytest.mark.parametrize("strict", [False, True])
def test_numbers_that_depend_on_sizes(strict: bool) -> None:
    """A program of letterboxes and matrices for all sizes, however it is traced."""
    first, second = inputs_of_sizes(0), inputs_of_sizes(1)
    shapes = (dynamic_shapes(first, second),)
    program = torch.export.export(
        Call(of_sizes), first, dynamic_shapes=shapes, strict=strict
    ).module()
    for step in STEPS:
        given = inputs_of_sizes(step)
        found, expected = tensors_of(program(*given)), tensors_of(of_sizes(*given))
        assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))


def test_sizes_compile_once() -> None:
    """The first graph is of one size, the second of all; angles may change too."""
    counter = CompileCounter()

    def call(images: torch.Tensor, boxes: torch.Tensor) -> object:
        turned = visops.get_affine_matrix((1.0, 2.0), images.shape[-1] * 2.5, shear=(0.0, 1.0))
        return of_sizes(images, boxes), turned

    torch._dynamo.reset()
    compiled = torch.compile(call, backend=counter, fullgraph=True)
    for size in range(20, 32):
        images = torch.rand(1, 3, size, 2 * size + 1)
        boxes = torch.rand(size, 4)
        found, expected = tensors_of(compiled(images, boxes)), tensors_of(call(images, boxes))
        assert all(same_bits(a, b) for a, b in zip(found[:-1], expected[:-1], strict=True))
        torch.testing.assert_close(found[-1], expected[-1], rtol=1e-14, atol=1e-14)
    assert counter.frame_count == 2


MAPS, ROWS = torch.rand(2, 4, 40, 50), torch.tensor([[0.0, 1, 2, 30, 35], [1, 3, 3, 20, 20]])
LEVELS = [MAPS, MAPS[..., ::2, ::2].contiguous()]
WEIGHT = torch.rand(5, 4, 3, 3)
BOXES, SCORES, _ = suppressed(0)


def _deformed(stride: int, padding: int, dilation: int) -> Tensor:
    rows, columns = ((n + 2 * (padding - dilation) - 1) // stride + 1 for n in (40, 50))
    steps: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation}
    return visops.deform_conv2d(MAPS, torch.ones(2, 18, rows, columns), WEIGHT, **steps)


def _attended(n: int) -> Tensor:
    value = torch.ones(1, n * (n + 1), 2, 4)
    samples = torch.full((1, 5, 2, 1, 3, 2), 0.4), torch.ones(1, 5, 2, 1, 3)
    return visops.multi_scale_deformable_attention(value, [(n, n + 1)], *samples)


def _drawn(n: int) -> Tensor:
    logits = torch.ones(n, 1, 9, 9)
    return visops.sample_points_by_uncertainty(logits, 12) * 0


SIZED: dict[str, Callable[[int], Any]] = {
    "roi_align": lambda n: visops.roi_align(MAPS, ROWS, (n, n + 1)),
    "multiscale_roi_align": lambda n: visops.multiscale_roi_align(LEVELS, ROWS, n, [0.5, 0.25]),
    "roi_pool": lambda n: visops.roi_pool(MAPS, ROWS, n),
    "ps_roi_align": lambda n: visops.ps_roi_align(torch.ones(2, n * n, 9, 9), ROWS, n),
    "roi_align_rotated": lambda n: visops.roi_align_rotated(
        MAPS, torch.cat([ROWS, ROWS[:, 4:] / 40], 1), n
    ),
    "crop_rois": lambda n: visops.crop_rois(MAPS, ROWS, n),
    "deform_conv2d stride": lambda n: _deformed(n, 1, 1),
    "deform_conv2d padding": lambda n: _deformed(1, n, 1),
    "deform_conv2d dilation": lambda n: _deformed(1, 1, n),
    "conv2d": lambda n: visops.conv2d(MAPS, WEIGHT, stride=n, padding=n, method="implicit"),
    "im2col": lambda n: visops.im2col(MAPS, n, stride=n),
    "nms": lambda n: visops.nms(BOXES, SCORES, 0.9, max_output=n),
    "nms_padded": lambda n: visops.nms_padded(BOXES[None], SCORES[None], 0.9, n)[0],
    "attention": _attended,
    "gaussian_blur": lambda n: visops.gaussian_blur(MAPS, 2 * n + 5),
    "box_blur": lambda n: visops.box_blur(MAPS, (n, n + 1)),
    "num_points": lambda n: visops.sample_points_by_uncertainty(MAPS[:, :1], n) * 0,
    "drawn masks": _drawn,
}


@pytest.mark.parametrize("name", SIZED)
def test_arguments_compile_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven sizes make two graphs: the first is of one size, the second of all."""
    monkeypatch.setattr(torch._dynamo.config, "capture_dynamic_output_shape_ops", True)
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(SIZED[name], backend=counter)
    for n in (3, 5, 6, 7, 8, 9, 11):
        torch.testing.assert_close(compiled(n), SIZED[name](n), rtol=1e-6, atol=1e-6)
    assert counter.frame_count <= 2


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_script_is_refused() -> None:
    with pytest.raises((RuntimeError, torch.jit.frontend.FrontendError)):
        torch.jit.script(Call(lambda b, s: visops.nms(b, s, 0.4)))


class Warp(torch.nn.Module):
    """A layer whose matrix is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.tensor([[0.9, 0.1, 0.3], [-0.1, 0.9, 0.7]]))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return visops.warp_affine(image, self.matrix)


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace", "ignore::torch.jit.TracerWarning")
def test_trace_of_parameters_keeps_the_operator() -> None:
    # Eager calls go through an autograd.Function, which a trace would hold as opaque Python.
    image = torch.rand(1, 2, 6, 7)
    layer = Warp()
    traced = torch.jit.trace(layer, (image,), check_trace=False)
    kinds = [node.kind() for node in traced.inlined_graph.nodes()]
    assert "visops::affine" in kinds
    assert "prim::PythonOp" not in kinds
    result = traced(image)
    assert same_bits(result.detach(), layer(image).detach())
    assert result.requires_grad
