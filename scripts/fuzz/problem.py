"""A problem: sizes and dtypes that fit together, and tensors of them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .draws import FLOATING, Draw

Pair = tuple[int, int]


class Problem:
    """Sizes and dtypes that fit together."""

    def __init__(self, draw: Draw, op: str) -> None:
        self.draw = draw
        self.op = op
        self.batch = draw.choice((1, 1, 2, 3, 0))
        self.groups = draw.choice((1, 1, 2))
        self.channels = self.groups * draw.choice((1, 2, 3, 3, 4, 8, 17, 0))
        self.height, self.width = self._side(), self._side()
        self.out = (self._side(), self._side())
        self.bins = (draw.between(1, 4), draw.between(1, 4))
        # Boxes need an image.
        self.count = draw.choice((0, 1, 2, 5, 17, 64)) if self.batch else 0
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
        return int(self.draw.choice((1, 2, 3, 5, 8, 13, 16, 33, 64, self.draw.between(1, 40))))

    def maps(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Return pixels."""
        dtype = dtype or self.dtype
        high = 255.0 if dtype == torch.uint8 else 1.0
        return self.draw.tensor(shape, dtype, -1.0 if dtype.is_floating_point else 0.0, high)

    def image(self) -> Tensor:
        """Return ``[N, C, H, W]``."""
        return self.maps(self.batch, self.channels, self.height, self.width)

    def masks(self) -> Tensor:
        """Return ``[N, H, W]``, bool or uint8."""
        drawn = self.draw.tensor((self.batch, self.height, self.width), torch.float64)
        inside = drawn < self.draw.choice((0.2, 0.6, 0.99))
        return inside if self.draw.chance(0.6) else inside.byte() * 255

    def bits(self) -> Tensor:
        """Return ``[N, H, words]``, int64."""
        shape = (self.batch, self.height, (self.width + 63) // 64)
        return (self.draw.tensor(shape, torch.float64) * 2**60).to(torch.int64)

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

    def places(self) -> tuple[int, int]:
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
            return self.maps(*lead, *self.places(), *self.kernel)
        area, count = self.kernel[0] * self.kernel[1], self.places()[0] * self.places()[1]
        return self.maps(lead[0], lead[1] * area, count)

    def weight(self) -> Tensor:
        """Return a conv2d's ``[O, C / groups, kh, kw]``."""
        return self.maps(4, self.channels // self.groups, *self.kernel, dtype=self.floating)

    def value_size(self) -> list[int]:
        """Return ``[B, S, h, d]`` of two levels."""
        positions = self.height * self.width + self.out[0] * self.out[1]
        return [self.batch, positions, self.groups, self.channels // self.groups]

    def samples(self, *last: int) -> Tensor:
        """Return numbers for each query, head and sample of two levels."""
        shape = (self.batch, self.count, self.groups, sum(self.kernel), *last)
        return self.draw.tensor(shape, self.floating)

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
