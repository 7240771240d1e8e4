"""ONNX: what is translated has the library's values in ONNX Runtime, over the tests' cases.

An export takes a second or two, so each program holds many calls.
"""

import itertools
from typing import Any

import numpy as np
import torch
import visops
from boxes.iou_cases import FUNCTIONS, PROPER
from convolution.conv2d_cases import CASES as LAYERS
from convolution.conv2d_cases import operands
from convolution.convolve2d_cases import BOUNDARIES
from convolution.convolve2d_cases import SIZES as PLANES
from convolution.im2col_cases import WINDOWS, numbers
from operators import CASES
from roi.align_cases import BOXES as REGIONS
from roi.align_cases import OPTIONS, boxes_of, maps_of
from suppression.nms_cases import BOXES, SCORES
from torch import Tensor
from warp.affine_cases import MODES

from exporting.inputs import (
    STEPS,
    attention,
    batched,
    images,
    matrices,
    pyramid,
    regions,
    sampled,
    suppressed,
)
from exporting.onnx_programs import Program, assert_near

OPS = torch.ops.visops

# Relative to the largest number of a result; the page on export has them too.
SINGLE = 2e-6  # sums in float32, in another order
WARPED = 1e-6  # for each pixel of the longer side: GridSample's coordinates are in [-1, 1]


def suppressions(boxes: Tensor, scores: Tensor, ids: Tensor) -> list[Any]:
    return [
        *(visops.nms(boxes, scores, t) for t in (0.0, 0.1, 0.5, 0.7)),
        visops.nms(boxes, scores, 0.6, max_output=3, score_threshold=0.1),
        visops.nms(boxes.half(), scores.double(), 0.6, score_threshold=0.1),
        visops.batched_nms(boxes, scores, ids, 0.6),
        visops.batched_nms(boxes, scores, ids, 0.25, max_output=4, score_threshold=0.1),
        OPS.nms_match(boxes, scores, 0.25),
    ]


def suppressions_of_batches(boxes: Tensor, scores: Tensor, classes: Tensor) -> list[Any]:
    ids = (scores * 1000).long() % 3
    return [
        visops.batched_nms(boxes, scores, None, 0.5),
        visops.batched_nms(boxes, scores, ids, 0.5, max_output=5),
        visops.batched_nms(boxes, classes, None, 0.3, score_threshold=0.3),
        visops.batched_nms(boxes, classes, None, 0.3, max_output=7),
        visops.nms_padded(boxes, scores, 0.4, 6, score_threshold=0.2),
    ]


def test_suppression() -> None:
    program = Program(suppressions, suppressed(0), suppressed(1))
    for kind, scores_of, count in itertools.product(BOXES, SCORES, (0, 1, 57)):
        rng = np.random.default_rng(count)
        boxes = torch.from_numpy(BOXES[kind](rng, count)).float()
        scores = torch.from_numpy(SCORES[scores_of](rng, count)).float()
        # NaN and infinity are one number to ONNX.
        scores = torch.where(scores.isnan(), torch.inf, scores)
        ids = torch.from_numpy(rng.integers(-2, 3, count))
        expected = suppressions(boxes, scores, ids)
        assert_near(program(boxes, scores, ids), expected, 0, f"{kind} {scores_of} {count}")


def test_suppression_of_batches() -> None:
    program = Program(suppressions_of_batches, batched(0), batched(1))
    for step in STEPS:
        inputs = batched(step)
        assert_near(program(*inputs), suppressions_of_batches(*inputs), 0, str(step))


def overlaps(boxes1: Tensor, boxes2: Tensor) -> list[Tensor]:
    return [function(boxes1, boxes2) for function in FUNCTIONS.values()]


def test_overlaps() -> None:
    program = Program(overlaps, *((suppressed(i)[0], suppressed(1 - i)[0]) for i in (0, 1)))
    for kind in PROPER:
        rng = np.random.default_rng(1)
        boxes = [torch.from_numpy(BOXES[kind](rng, n)).float() for n in (40, 23)]
        found, expected = program(*boxes), overlaps(*boxes)
        # All but the arctangent are the same operations.
        assert_near(found[:3], expected[:3], 0, kind)
        assert_near(found[3:], expected[3:], 1e-6, kind)


def poolings(maps: Tensor, many: Tensor, byte: Tensor, boxes: Tensor) -> list[Tensor]:
    results = []
    for size, scale, ratio, aligned in OPTIONS:
        results.append(visops.roi_align(maps, boxes, size, scale, ratio, aligned))
        if ratio > 0:
            results.append(visops.roi_align(maps, boxes, size, scale, ratio, aligned, reduce="max"))
    return [
        *results,
        visops.ps_roi_align(many, boxes, (2, 3), 0.5, 2),
        visops.crop_rois(maps, boxes, (4, 5), fill=[0.0, 2.0, -1.0]),
        visops.roi_align(byte, boxes, 3, 1.0, 2),
        visops.crop_rois(byte, boxes, 3, fill=77),
    ]


def test_poolings() -> None:
    def inputs(kind: str, count: int) -> tuple[Tensor, ...]:
        maps = torch.from_numpy(maps_of((2, 3, 10, 11), seed=count)).float()
        many = torch.from_numpy(maps_of((2, 12, 10, 11))).float()
        boxes = torch.from_numpy(boxes_of(kind, count)).float()
        return maps, many, (maps * 255).byte(), boxes

    program = Program(poolings, inputs("inside", 10), inputs("inside", 7))
    for kind, count in [*((kind, 12) for kind in REGIONS), ("inside", 0)]:
        given = inputs(kind, count)
        expected = poolings(*given)
        found = program(*given)
        assert_near(found[:-2], expected[:-2], 1e-5, kind)
        for a, b in zip(found[-2:], expected[-2:], strict=True):  # uint8: ties may go either way
            assert not ((a.int() - b.int()).abs() > 1).any()


def pyramids(maps: list[Tensor], boxes: Tensor) -> list[Tensor]:
    scales = [1 / 4, 1 / 8, 1 / 16]
    return [
        visops.multiscale_roi_align(maps, boxes, 2, scales, 2, level_rule=rule, canonical_scale=60)
        for rule in ("torchvision", "detectron2")
    ]


def test_pyramids() -> None:
    program = Program(pyramids, pyramid(0), pyramid(1))
    for step in STEPS:
        inputs = pyramid(step)
        assert_near(program(*inputs), pyramids(*inputs), 1e-5, str(step))


WARPS: list[Any] = [
    (mode, padding)
    for mode in MODES
    for padding in ("constant", "replicate", "reflect", "symmetric")
]


def warps(x: Tensor, matrix: Tensor, bent: Tensor, color: Tensor) -> list[Tensor]:
    byte = (x * 255).byte()
    results = [
        visops.warp_affine(x, matrix, mode=mode, padding_mode=padding, fill=[0.5, 2.0, 0.0])
        for mode, padding in WARPS
    ]
    return [
        *results,
        visops.warp_affine(x, matrix[0], (7, 9), inverse_map=True, convention="half_pixel"),
        visops.warp_affine(byte, matrix[0], (7, 9), fill=9, mode="nearest").float() / 255,
        visops.augment(x, bent, (9, x.shape[3]), color=color, clamp=True, mean=0.5, std=0.25),
        visops.augment(x, bent, (9, 8), fill=0.25, padding_mode="replicate", mode="bicubic"),
        visops.augment([x[0], x[1]], matrix[:2], (6, 5), layout="CHW", convention="half_pixel"),
        visops.augment(x, matrix, (9, 8), fill=[0.5, 2.0, 0.0], window=[1.0, 0.5, 4.25, 3.0]),
        visops.augment(
            x, matrix[0], (9, 8), window=color[:, 0, 0, :1] * torch.tensor([1.0, 1, 5, 4])
        ),
        visops.augment(x, matrix, (7, 9), inverse_map=True, window=[2.5, -1.0, 3.0, 99.0]),
        visops.augment(x, matrix, (9, 8), fill=0.5, mode="nearest", window=[1.0, 1, 4, 3]),
        visops.augment(x, matrix, (9, 8), fill=0.5, window=[3.0, 1, 3, 3]),
    ]


def test_warps() -> None:
    def inputs(step: int) -> tuple[Tensor, ...]:
        batch = images(step).shape[0]
        bend = torch.eye(3, dtype=torch.float64).repeat(batch, 1, 1)
        bend[:, :2], bend[:, 2, 0] = matrices(step), 0.01
        color = torch.eye(3, 4).repeat(batch, 2, 1, 1) * 0.9 + 0.05
        return images(step), matrices(step), bend, color

    program = Program(warps, inputs(0), inputs(1), optimize=False)
    for step in STEPS:
        given = inputs(step)
        longest = max(given[0].shape[2:])
        for i, (a, b) in enumerate(zip(program(*given), warps(*given), strict=True)):
            nearest = i < len(WARPS) and WARPS[i][0] == "nearest"
            assert_near([a], [b], 0 if nearest else 4 * WARPED * longest, f"{i} {step}")


def test_pixels_beside_a_window_are_fill_whatever_it_holds() -> None:
    matrix = torch.tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]])

    def nearest(image: Tensor) -> list[Tensor]:
        how: Any = {"mode": "nearest", "fill": 0.5, "window": [1.0, 1, 4, 3]}
        return [visops.augment(image, matrix, (9, 8), **how)]

    images = [torch.full((step + 1, 1, 5, 6 + step), float("inf")) for step in range(3)]
    program = Program(nearest, (images[0],), (images[1],))
    for image in images:
        (found,), (wanted,) = program(image), nearest(image)
        assert torch.equal(torch.as_tensor(found), wanted)
        assert (wanted == 0.5).any()
        assert wanted.isinf().any()


def convolutions(*tensors: Tensor) -> list[Tensor]:
    layers = iter(tensors)
    methods: tuple[Any, ...] = ("implicit", "im2col")
    return [
        visops.conv2d(next(layers), next(layers), next(layers), *case.options, method=method)
        for case, method in zip(LAYERS.values(), itertools.cycle(methods))
        if len(case.padding) == 2
    ]


def test_layers() -> None:
    cases = [case for case in LAYERS.values() if len(case.padding) == 2]
    tensors = [t for case in cases for t in operands(case, torch.float32)]
    assert_near(Program(convolutions, tuple(tensors))(*tensors), convolutions(*tensors), SINGLE)


def planes(*tensors: Tensor) -> list[Tensor]:
    pairs = zip(tensors[::2], tensors[1::2], strict=True)
    turns = itertools.cycle(itertools.product((visops.convolve2d, visops.correlate2d), BOUNDARIES))
    return [
        function(image, kernel, "same", boundary, 2.5 if boundary == "fill" else 0, method="direct")
        for (image, kernel), (function, boundary) in zip(pairs, turns, strict=False)
    ]


def test_planes() -> None:
    rng = np.random.default_rng(0)
    tensors = []
    for i, (image, kernel) in enumerate(PLANES):
        leads = ((2,), ()) if i % 2 else ((), (3,))
        for lead, size in zip(leads, (image, kernel), strict=True):
            tensors.append(torch.from_numpy(rng.standard_normal((*lead, *size))).float())
    assert_near(Program(planes, tuple(tensors))(*tensors), planes(*tensors), SINGLE)


def columns(*tensors: Tensor) -> list[Tensor]:
    results = []
    turns = itertools.cycle([("unfold", None), ("patches", torch.tensor(0.5))])
    for tensor, window in zip(tensors, WINDOWS, strict=True):
        layout, fill = next(turns)
        found = OPS.im2col(tensor, *window.arguments, fill, layout)
        results.append(found)
        if window.dims <= 2:
            results.append(OPS.col2im(found, window.sizes, *window.arguments, layout))
    return results


def test_columns() -> None:
    leads = itertools.cycle([(2, 3), (3,)])
    tensors = tuple(numbers((*next(leads), *w.sizes), torch.float32) for w in WINDOWS)
    found, expected = Program(columns, tensors)(*tensors), columns(*tensors)
    # Sums are in the same order.
    assert_near(found, expected, 0)


def test_later_opset() -> None:
    """The exporter converts; from 20 on GridSample takes float64."""

    def call(x: Tensor, matrix: Tensor, boxes: Tensor) -> list[Tensor]:
        return [
            visops.warp_affine(x.double(), matrix, mode="bicubic").float(),
            visops.roi_align(x, boxes, 2, 1.0, 2),
            visops.roi_pool(x, boxes, (3, 2), 0.5),
            visops.nms(boxes[:, 1:], boxes[:, 1], 0.3),
        ]

    def inputs(step: int) -> tuple[Tensor, ...]:
        return images(step), matrices(step), regions(step)

    program = Program(call, inputs(0), inputs(1), opset=20)
    assert max(entry.version for entry in program.model.opset_import if not entry.domain) == 20
    for step in STEPS:
        assert_near(program(*inputs(step)), call(*inputs(step)), 2e-5, str(step))


# What they may differ by.
ERRORS = {
    "get_affine_matrix": 1e-8,
    "invert_affine": 0,
    "compose_affine": 0,
    "transform_points": 0,
    "transform_boxes": 0,
}
COMPOSED = [case for case in CASES if case.name in ERRORS]


def composed(*inputs: Any) -> list[Any]:
    return [case.function(*given) for case, given in zip(COMPOSED, inputs, strict=True)]


def test_functions_of_torchs_operators() -> None:
    """They need no translation."""

    def inputs(size: str) -> tuple[Any, ...]:
        return tuple(tuple(case.arguments(size).values())[:2] for case in COMPOSED)

    program = Program(composed, inputs("ordinary"), inputs("second"), optimize=False)
    for size in ("ordinary", "second", "third"):
        given = inputs(size)
        results = zip(COMPOSED, program(*given), composed(*given), strict=True)
        for case, found, expected in results:
            assert_near([found], [expected], ERRORS[case.name], case.name)


def filters(image: Tensor) -> list[Tensor]:
    kernel = torch.linspace(-1, 1, 15).view(3, 5)
    borders: tuple[Any, ...] = ("reflect_101", "reflect", "replicate", "wrap", "constant")
    return [
        *(visops.filter2d(image, kernel, border=border) for border in borders),
        visops.filter2d(image, (kernel[0], kernel[:, 0]), border="constant", fill=2.0),
        visops.filter2d(image, torch.ones(31, 1) / 31),  # longer than the image
        visops.gaussian_blur(image, 5, 1.2),
        visops.box_blur(image, (3, 5)),
        visops.sobel(image, 1, 0),
    ]


def test_filters_of_open_sizes() -> None:
    program = Program(filters, (images(0),), (images(1),), optimize=False)
    for step in STEPS:
        image = images(step)
        assert_near(program(image), filters(image), SINGLE, str(step))


def points(maps: Tensor, at: Tensor) -> list[Tensor]:
    return [
        *(
            visops.point_sample(maps, at, mode=mode, padding_mode=padding, align_corners=aligned)
            for mode in ("bilinear", "nearest")
            for padding in ("zeros", "border", "reflection")
            for aligned in (False, True)
        ),
        visops.point_sample(maps > 0.5, at),
        visops.point_sample(maps, at[:1]),
    ]


def test_points() -> None:
    program = Program(points, sampled(0), sampled(1))
    for step in STEPS:
        maps, at = sampled(step)
        for moved in (at, at * 3 - 1):
            assert_near(program(maps, moved), points(maps, moved), 5e-6, str(step))
        at[0, :4] = torch.tensor([[torch.nan, 0.5], [0.5, torch.inf], [1e30, 1e30], [-1e30, 0.5]])
        assert_near(program(maps, at), points(maps, at), 5e-6, "not finite, and far")


def attentions(values: Tensor, shapes: Tensor, at: Tensor, weights: Tensor) -> list[Tensor]:
    call, levels = visops.multi_scale_deformable_attention, [(4, 5), (2, 3)]
    several = at.flatten(3, 4), weights.flatten(3, 4)
    counts = [at.shape[4] * 2 - 1, 1]
    return [
        call(values, levels, at, weights),
        call(values, levels, at, weights, method="discrete"),
        call(values, shapes, at, weights),
        call(values, levels, *several, num_points_list=counts),
    ]


def test_attention() -> None:
    def inputs(step: int) -> tuple[Tensor, ...]:
        values, at, weights = attention(step)
        return values, torch.tensor([[4, 5], [2, 3]]), at, weights

    program = Program(attentions, inputs(0), inputs(1))
    for step in STEPS:
        given = inputs(step)
        given[2][0, 0, 0, 0] = torch.nan
        assert_near(program(*given), attentions(*given), 5e-6, str(step))
