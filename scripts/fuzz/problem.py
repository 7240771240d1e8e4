"""Valid values for every argument's name, all of one problem.

Names mean the same in all operators (`boxes` are boxes), so a new operator with the usual names
needs no entry here. Exceptions are listed as "operator.name".
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from . import attention, deform_conv2d, maps, pixels, points
from .draws import FLOATING, Draw
from .masks import MASK_VALUES, MASKS_BY_OPERATOR, masks_of

Pair = tuple[int, int]
INTERPOLATIONS = ("bilinear", "nearest", "bicubic")
PADDINGS = ("constant", "replicate", "reflect", "symmetric", "circular")


class Problem:
    """Sizes and dtypes that fit together."""

    def __init__(self, draw: Draw, op: str) -> None:
        self.draw = draw
        self.op = op
        self.arguments: dict[str, Any] = {}  # those drawn so far
        self.batch = draw.choice((1, 1, 2, 3, 0))
        self.groups = draw.choice((1, 1, 2))
        self.channels = self.groups * draw.choice((1, 2, 3, 3, 4, 8, 17, 0))
        self.height, self.width = self._side(), self._side()
        self.out = (self._side(), self._side())
        self.bins = (draw.between(1, 4), draw.between(1, 4))
        # Boxes need an image.
        self.count = draw.choice((0, 1, 2, 5, 17, 64, 300)) if self.batch else 0
        self.dtype: torch.dtype = draw.choice((torch.float32, *FLOATING, *IMAGE_DTYPES.get(op, ())))
        self.box_dtype: torch.dtype = draw.choice((torch.float32, self.floating))
        self.kernel: Pair = (draw.between(1, 4), draw.between(1, 5))
        self.stride: Pair = (draw.between(1, 3), draw.between(1, 3))
        self.padding: Pair = (draw.between(0, 2), draw.between(0, 2))
        self.dilation: Pair = (draw.between(1, 2), draw.between(1, 2))
        self.blend: str = draw.choice(("replace", "feather", "alpha"))
        self.layout: str = draw.choice(("unfold", "patches"))
        self.method: str = draw.choice(("linear", "gaussian"))

    @property
    def floating(self) -> torch.dtype:
        """A dtype with gradients."""
        return self.dtype if self.dtype.is_floating_point else torch.float32

    def _side(self) -> int:
        if self.draw.chance(0.04):
            return 0
        return int(self.draw.choice((1, 2, 3, 5, 8, 13, 16, 33, 64, 130, self.draw.between(1, 40))))

    def maps(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Return pixels."""
        dtype = dtype or self.dtype
        high = 255.0 if dtype == torch.uint8 else 1.0
        return self.draw.tensor(shape, dtype, -1.0 if dtype.is_floating_point else 0.0, high)

    def image(self) -> Tensor:
        """Return ``[N, C, H, W]``."""
        return self.maps(self.batch, self.channels, self.height, self.width)

    def pooled(self) -> Tensor:
        """Return the gradient of pooled boxes."""
        return self.maps(self.count, self.channels, *self.bins, dtype=self.floating)

    def matrix(self, rows: int = 2) -> Tensor:
        """Return transforms near the identity; some enlarge or shrink."""
        shape = (rows, 3) if self.draw.chance(0.2) else (self.batch, rows, 3)
        matrix = self.draw.tensor(shape, torch.float64, -0.5, 0.5)
        matrix[..., :2, :2] += torch.eye(2) * self.draw.choice((1.0, 1.0, 0.25, 4.0, -1.0))
        matrix[..., :2, 2] *= self.draw.choice((0, 2, 40, 1e6))
        if rows == 3:
            matrix[..., 2, :] = torch.tensor([0.001, 0.0, 1.0])
        return matrix.to(self.draw.choice((torch.float64, torch.float32)))

    def corners(self, count: int | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """Return ``[K, 4]`` x1, y1, x2, y2, partly beyond the image."""
        count = self.count if count is None else count
        low = self.draw.tensor((count, 2), torch.float64, -3.0, max(self.height, self.width) + 3.0)
        size = self.draw.tensor((count, 2), torch.float64, 0.0, self.draw.choice((2.0, 20.0)))
        return torch.cat([low, low + size], 1).to(dtype or self.box_dtype)

    def rotated(self, count: int | None = None) -> Tensor:
        """Return ``[K, 5]`` centre x, y, width, height, angle."""
        boxes = self.corners(count)
        sides = (boxes[:, 2:] - boxes[:, :2]).abs()
        angle = self.draw.tensor((len(boxes), 1), self.box_dtype, -4.0, 4.0)
        return torch.cat([boxes[:, :2], sides, angle], 1)

    def rois(self, boxes: Tensor) -> Tensor:
        """Put an image's number before each box."""
        index = self.draw.tensor((len(boxes), 1), torch.float64, 0.0, 1.0) * self.batch
        return torch.cat([index.floor().clamp(0, max(0, self.batch - 1)).to(boxes.dtype), boxes], 1)

    def scores(self, count: int | None = None) -> Tensor:
        """Return ``[K]``, with ties."""
        count = self.count if count is None else count
        scores = self.draw.tensor((count,), torch.float64)
        if self.draw.chance(0.3):
            scores = (scores * 4).round() / 4
        return scores.to(self.box_dtype)

    def numbers(self) -> list[float]:
        """Return one number, or one per channel."""
        count = self.draw.choice((1, self.channels))
        least = 0 if self.dtype == torch.uint8 else -1
        return [self.draw.uniform(least, 1) for _ in range(count)]

    def positions(self) -> tuple[int, int]:
        """Return how many places a window has."""
        return tuple(
            max(0, (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1)
            for size, pad, dilation, kernel, stride in zip(
                (self.height, self.width),
                *(self.padding, self.dilation, self.kernel, self.stride),
                strict=True,
            )
        )  # type: ignore[return-value]

    def columns(self) -> Tensor:
        """Return what im2col returns."""
        lead = (self.batch, self.channels)
        if self.layout == "patches":
            return self.maps(*lead, *self.positions(), *self.kernel)
        area, count = self.kernel[0] * self.kernel[1], self.positions()[0] * self.positions()[1]
        return self.maps(lead[0], lead[1] * area, count)

    def weight(self) -> Tensor:
        """Return a conv2d's ``[O, C / groups, kh, kw]``."""
        return self.maps(4, self.channels // self.groups, *self.kernel, dtype=self.floating)

    def models(self, make: Callable[[int], Tensor]) -> list[Tensor]:
        """Return a tensor for each of three models."""
        return [make(count) for count in (self.count, 3, 0)]

    def out_like(self, *shape: int) -> Tensor:
        """Return a tensor to write to."""
        return torch.zeros(shape, dtype=self.dtype)

    def integers(self, count: int, high: int, dtype: torch.dtype = torch.int64) -> Tensor:
        """Return integers below `high`."""
        return (self.draw.tensor((count,), torch.float64) * high).floor().to(dtype)


IMAGE_DTYPES = {
    **dict.fromkeys(
        ("affine", "warp_affine", "augment", "roi_align", "paste_rois"), (torch.uint8,)
    ),
    "crop_rois": (torch.uint8, torch.int16, torch.uint16),
    **dict.fromkeys(
        ("im2col", "col2im", "convolve2d", "correlate2d"),
        (torch.uint8, torch.int32, torch.bool, torch.complex64, torch.complex128, torch.uint64),
    ),
}
_CONV_OUT = lambda p: (p.batch, 4, *p.positions())  # noqa: E731
_FULL = lambda p: (  # noqa: E731
    p.batch,
    p.channels,
    p.height + p.kernel[0] - 1,
    p.width + p.kernel[1] - 1,
)

Value = Callable[[Problem], Any]
BY_NAME: Mapping[str, Value] = MappingProxyType(
    {
        # warps
        "image": Problem.image,
        "matrix": lambda p: p.matrix(),
        "size": lambda p: p.out,
        "interpolation": lambda p: p.draw.choice(INTERPOLATIONS),
        "padding_mode": lambda p: p.draw.choice(PADDINGS),
        "fill": Problem.numbers,
        "mean": lambda p: p.draw.choice(([], p.numbers())),
        "color_grad": lambda p: False,
        "std": lambda p: p.draw.choice(([], [0.5] * p.channels)),
        "erase_value": Problem.numbers,
        "image_size": lambda p: [p.height, p.width],
        "window": lambda p: torch.tensor([[0.0, 0.5, p.width, p.height]] * p.batch).double(),
        "color": lambda p: (
            p.draw.tensor((p.batch, 2, p.channels, p.channels + 1), torch.float64)
            if p.channels <= 4
            else None
        ),
        "erase": lambda p: p.corners(3 * p.batch, torch.int64).reshape(p.batch, 3, 4),
        "out_dtype": lambda p: p.draw.choice((torch.float32, torch.uint8, *FLOATING)),
        "memory_format": lambda p: p.draw.choice((torch.contiguous_format, torch.channels_last)),
        "convention": lambda p: p.draw.choice(("integer", "half_pixel")),
        "points": lambda p: p.draw.tensor((p.batch, p.count, 2), p.floating, -9, 9),
        "src": lambda p: p.draw.tensor((p.batch, 4, 2), p.floating, -9, 9),
        "dst": lambda p: p.draw.tensor((p.batch, 4, 2), p.floating, -9, 9),
        **{
            name: lambda p: [p.draw.uniform(-9, 9), p.draw.uniform(-9, 9)]
            for name in ("center", "translate", "shear")
        },
        "angle": lambda p: p.draw.uniform(-400, 400),
        "scale": lambda p: p.draw.uniform(0.1, 4),
        # boxes
        "boxes1": lambda p: p.corners(),
        "boxes2": lambda p: p.corners(p.draw.between(0, 9)),
        "boxes": lambda p: p.rois(p.corners()),
        "scores": lambda p: p.scores(),
        "idxs": lambda p: p.integers(p.count, 3),
        "iou_threshold": lambda p: p.draw.uniform(0, 1),
        "max_output": lambda p: p.draw.choice((0, 1, 5, 100)),
        "score_threshold": lambda p: p.draw.choice((None, 0.3)),
        "min_score": lambda p: p.draw.choice((0.0, 0.001, 0.3)),
        "sigma": lambda p: p.draw.uniform(0.1, 3),
        "method": lambda p: p.method,
        "kind": lambda p: p.draw.choice(
            ("iou", "iof", "iof2", "generalized", "distance", "complete")
        ),
        "eps": lambda p: 1e-7,
        "objects": lambda p: (
            p.corners() if p.draw.chance(0.5) else p.maps(p.count, 9, 70, dtype=torch.uint8)
        ),
        "labels": lambda p: p.models(lambda count: p.integers(count, 3)),
        "weights": lambda p: [1.0, 2.0, 0.5],
        "conf_type": lambda p: p.draw.choice(
            ("avg", "max", "box_and_model_avg", "absent_model_aware_avg")
        ),
        # regions
        "input": Problem.image,
        "images": Problem.image,
        "output_size": lambda p: p.bins,
        "spatial_scale": lambda p: p.draw.choice((1.0, 0.5, 0.25)),
        "sampling_ratio": lambda p: p.draw.choice((-1, 0, 1, 2)),
        "input_size": lambda p: [p.batch, p.channels, p.height, p.width],
        "images_size": lambda p: [p.batch, p.channels, p.height, p.width],
        "index": lambda p: p.integers(
            p.count * p.channels * p.bins[0] * p.bins[1],
            max(1, p.height * p.width),
            torch.int32 if p.op.startswith("roi_pool") else torch.int64,
        ).view(p.count, p.channels, *p.bins),
        "features": lambda p: [p.image(), p.maps(p.batch, p.channels, p.out[0], p.out[1])],
        "scales": lambda p: [0.5, 0.25],
        "canonical_scale": lambda p: 8.0,
        "canonical_level": lambda p: 1,
        "level_rule": lambda p: p.draw.choice(("torchvision", "detectron2")),
        "sizes": lambda p: [p.height, p.width, *p.out],
        "batch": lambda p: p.batch,
        "patches": lambda p: p.maps(p.count, p.channels, *p.kernel),
        "patches_size": lambda p: [p.count, p.channels, *p.kernel],
        "alpha": lambda p: (
            p.draw.tensor(
                (p.count, *p.kernel),
                torch.float64 if p.dtype == torch.float64 else torch.float32,
            )
            if p.blend == "alpha" or p.op == "paste_rois_backward_alpha"
            else None
        ),
        "blend": lambda p: p.blend,
        "feather": lambda p: 2.0,
        "reduce": lambda p: p.draw.choice(("mean", "max")),
        **MASK_VALUES,
        # convolutions
        "kernel": lambda p: p.maps(*p.kernel),
        "start": lambda p: [1 - p.kernel[0], 1 - p.kernel[1]],
        "boundary": lambda p: p.draw.choice(("fill", "wrap", "symm")),
        "kernel_size": lambda p: p.kernel,
        "stride": lambda p: p.stride,
        "padding": lambda p: p.padding,
        "dilation": lambda p: p.dilation,
        "layout": lambda p: p.layout,
        "weight": Problem.weight,
        "bias": lambda p: p.maps(4, dtype=p.floating),
        "groups": lambda p: p.groups,
        "weight_size": lambda p: list(p.weight().shape),
        "in1": lambda p: p.maps(p.channels, p.height, p.width),
        "in2": lambda p: p.maps(*p.kernel),
        "mode": lambda p: p.draw.choice(("full", "same", "valid")),
        "fillvalue": lambda p: p.draw.choice((0, 1, 2.5)),
        "fill_value": lambda p: p.draw.choice((0, 1)),
        "device": lambda p: None,
        "explain": lambda p: None,
        # of visops.compat
        "image_uint8": lambda p: p.maps(p.height, p.width, 3, dtype=torch.uint8).numpy(),
        "from_point": lambda p: p.draw.tensor((3, 2), torch.float32, 0, 20),
        "to_point": lambda p: p.draw.tensor((3, 2), torch.float32, 0, 20),
        "affine_matrix": lambda p: p.matrix(),
        "out_h": lambda p: p.out[0],
        "out_w": lambda p: p.out[1],
        "bboxes": lambda p: p.corners(),
        "inds": lambda p: p.integers(p.count, 3),
        "nms_cfg": lambda p: {"type": "nms", "iou_thr": 0.5},
        "dets": lambda p: torch.cat([p.corners(), p.scores().unsqueeze(1)], 1),
        "iou_thr": lambda p: 0.5,
        "device_id": lambda p: None,
        "rois": lambda p: p.rois(p.corners()),
        "out_size": lambda p: p.bins,
        "sample_num": lambda p: 2,
    }
)


def arguments_of(names: str, **values: Value) -> dict[str, Value]:
    return {f"{op}.{name}": value for op in names.split() for name, value in values.items()}


_NMS = "nms batched_nms nms_match soft_nms batched_soft_nms"
_AUGMENT = "augment augment_list augment_out augment_list_out augment_backward"
BY_OPERATOR: Mapping[str, Value] = MappingProxyType(
    {
        **arguments_of(_NMS + " transform_boxes", boxes=lambda p: p.corners()),
        **arguments_of(
            "nms_padded",
            boxes=lambda p: p.corners(p.batch * p.count).reshape(p.batch, p.count, 4),
            scores=lambda p: p.scores(p.batch * p.count).reshape(p.batch, p.count),
        ),
        **arguments_of("component_stats", labels=lambda p: masks_of(p).to(torch.int32)),
        **arguments_of("masks_to_runs", width=lambda p: -1),
        **arguments_of("runs_to_bits", size=lambda p: [p.height, p.width]),
        **arguments_of("mask_iou", kind=lambda p: p.draw.choice(("iou", "ioa"))),
        "augment.kinds": lambda p: p.draw.choice((0, 15)),  # all
        "augment_list.kinds": lambda p: p.draw.choice((0, 15)),
        **MASKS_BY_OPERATOR,
        **arguments_of("remove_small_regions", mode=lambda p: p.draw.choice(("holes", "islands"))),
        **arguments_of("nms_rotated soft_nms_rotated", boxes=lambda p: p.rotated()),
        **attention.BY_OPERATOR,
        **deform_conv2d.BY_OPERATOR,
        **maps.BY_OPERATOR,
        **pixels.BY_OPERATOR,
        **points.BY_OPERATOR,
        **arguments_of(
            "box_iou_rotated box_iou_rotated_backward",
            kind=lambda p: p.draw.choice(("iou", "iof", "iof2")),
            boxes1=lambda p: p.rotated(),
            boxes2=lambda p: p.rotated(5),
        ),
        **arguments_of(
            "box_iou_backward box_iou_rotated_backward",
            boxes2=lambda p: p.corners(5) if p.op == "box_iou_backward" else p.rotated(5),
            grad=lambda p: p.maps(p.count, 5, dtype=p.box_dtype),
        ),
        **arguments_of(
            "weighted_boxes_fusion non_maximum_weighted",
            boxes=lambda p: p.models(p.corners),
            scores=lambda p: p.models(p.scores),
        ),
        **arguments_of(
            "weighted_boxes_fusion_3d",
            boxes=lambda p: p.models(lambda n: p.corners(n)[:, [0, 1, 0, 2, 3, 2]]),
            scores=lambda p: p.models(p.scores),
        ),
        **arguments_of(
            "weighted_boxes_fusion_1d",
            segments=lambda p: p.models(lambda n: p.corners(n)[:, ::2]),
            scores=lambda p: p.models(p.scores),
        ),
        **arguments_of(
            "soft_nms batched_soft_nms soft_nms_rotated",
            method=lambda p: p.draw.choice((p.method, "hard")),
        ),
        **arguments_of(
            "affine_backward_image affine_backward_matrix augment_backward",
            grad=lambda p: p.maps(p.batch, p.channels, *p.out, dtype=p.floating),
            image=lambda p: p.maps(p.batch, p.channels, p.height, p.width, dtype=p.floating),
        ),
        **arguments_of(_AUGMENT, matrix=lambda p: p.matrix(p.draw.choice((2, 3)))),
        **arguments_of(
            "affine_out augment_out augment_list_out",
            out=lambda p: p.out_like(p.batch, p.channels, *p.out),
        ),
        **arguments_of(
            "augment_list augment_list_out",
            images=lambda p: [p.maps(p.channels, p.height, p.width) for _ in range(p.batch)],
        ),
        **arguments_of("warp_affine augment", mode=lambda p: p.draw.choice(INTERPOLATIONS)),
        **arguments_of("augment", layout=lambda p: p.draw.choice((None, "CHW"))),
        **arguments_of("roi_align_rotated", boxes=lambda p: p.rois(p.rotated())),
        **arguments_of("roi_align_rotated_backward", boxes=lambda p: p.rois(p.rotated())),
        **{
            f"{op}.grad": Problem.pooled
            for op in (
                *("roi_align_backward_input", "roi_align_backward_boxes"),
                *("roi_align_max_backward_input", "roi_align_max_backward_boxes"),
                *("multiscale_roi_align_backward_input", "multiscale_roi_align_backward_boxes"),
                *("roi_align_rotated_backward", "roi_pool_backward", "ps_roi_align_backward"),
                *("crop_rois_backward_images", "crop_rois_backward_boxes"),
            )
        },
        **arguments_of(
            "multiscale_roi_align_backward_input", channels_last=lambda p: [False, True]
        ),
        **arguments_of(
            "ps_roi_align",
            input=lambda p: p.maps(p.batch, 2 * p.bins[0] * p.bins[1], p.height, p.width),
        ),
        **arguments_of(
            "ps_roi_align_backward",
            grad=lambda p: p.maps(p.count, 2, *p.bins, dtype=p.floating),
            input_size=lambda p: [p.batch, 2 * p.bins[0] * p.bins[1], p.height, p.width],
        ),
        **arguments_of("crop_rois", size=lambda p: p.bins),
        **arguments_of(
            "paste_rois_backward_patches paste_rois_backward_alpha",
            grad=lambda p: p.maps(p.batch, p.channels, p.height, p.width, dtype=p.floating),
        ),
        **arguments_of(
            "convolve2d convolve2d_out",
            size=lambda p: _FULL(p)[2:],
            out=lambda p: p.out_like(*_FULL(p)),
            fill=lambda p: p.draw.choice((None, None, p.maps())),
        ),
        **arguments_of(
            "convolve2d_fold",
            grad=lambda p: p.maps(*_FULL(p)),
            size=lambda p: [p.height, p.width],
        ),
        **arguments_of(
            "convolve2d_backward_kernel",
            grad=lambda p: p.maps(*_FULL(p)),
            fill=lambda p: p.draw.choice((None, None, p.maps())),
        ),
        **arguments_of(
            "convolve2d correlate2d",
            method=lambda p: p.draw.choice(("auto", "direct", "im2col", "fft", "separable")),
        ),
        **arguments_of(
            "conv2d", method=lambda p: p.draw.choice(("auto", "implicit", "im2col", "torch"))
        ),
        **arguments_of("im2col", fill=lambda p: p.draw.choice((None, p.maps()))),
        "im2col.padding": lambda p: [*p.padding, *p.padding],
        **arguments_of(
            "col2im",
            input=Problem.columns,
            output_size=lambda p: [p.height, p.width],
            padding=lambda p: [*p.padding, *p.padding],
        ),
        **arguments_of(
            "conv2d_backward_input conv2d_backward_weight",
            grad=lambda p: p.maps(*_CONV_OUT(p), dtype=p.floating),
        ),
    }
)
