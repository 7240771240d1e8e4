"""The detector of this example: it finds blobs, bright or dark discs of three sizes.

It has what detectors have (preprocessing, a network, anchors, suppression) and needs no training:
the network's weights are Laplacians of Gaussians, which respond most to discs of their own radius.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import visops
from torch import Tensor, nn

SIZE = 256  # photos are scaled to fit into a square of this side
STRIDE = 4  # pixels from anchor to anchor
RADII = (4, 6, 9)  # of discs, in pixels of the scaled photo
KERNEL = 33
LUMA = (0.299, 0.587, 0.114)


def laplacian_of_gaussian(radius: float) -> Tensor:
    """Return the filter ``[KERNEL, KERNEL]`` whose response is largest at discs of a radius."""
    offset = torch.arange(KERNEL, dtype=torch.float64) - KERNEL // 2
    squared = (offset[:, None] ** 2 + offset**2) / radius**2  # sigma is radius / sqrt(2)
    values = (1 - squared) * torch.exp(-squared)
    values -= values.mean()  # nothing where the photo is flat
    return values / values.abs().sum()


class Detector(nn.Module):
    """Find blobs in a photo."""

    anchors: Tensor
    letterbox: Tensor

    def __init__(self) -> None:
        super().__init__()
        gray = nn.Conv2d(3, 1, 1, bias=False)
        gray.weight = nn.Parameter(torch.tensor(LUMA)[None, :, None, None], requires_grad=False)
        blobs = nn.Conv2d(
            1, len(RADII), KERNEL, STRIDE, KERNEL // 2, bias=False, padding_mode="replicate"
        )
        filters = torch.stack([laplacian_of_gaussian(radius) for radius in RADII])
        blobs.weight = nn.Parameter(filters[:, None].float(), requires_grad=False)
        self.network = nn.Sequential(gray, blobs)
        centers = torch.arange(0, SIZE, STRIDE) + 0.5
        sides = torch.tensor(RADII, dtype=centers.dtype)
        radii, y, x = torch.meshgrid(sides, centers, centers, indexing="ij")
        corners = torch.stack([x - radii, y - radii, x + radii, y + radii], dim=-1)
        self.register_buffer("anchors", corners.reshape(1, -1, 4))
        self.register_buffer("letterbox", torch.tensor([[[1.0, 0, 0], [0, 1, 0]]]))

    def forward(self, photo: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Find at most 20 blobs, the clearest first.

        Parameters
        ----------
        photo : uint8 ``[3, height, width]``

        Returns
        -------
        boxes : float32 ``[K, 4]``
            Corners in pixels of the photo.
        scores : float32 ``[K]``
        labels : int64 ``[K]``
            0 for bright blobs, 1 for dark ones.
        """
        scale: Any = torch.sym_max(photo.shape[1], photo.shape[2]) / SIZE
        image = visops.augment(
            photo[None],
            self.letterbox * scale,
            (SIZE, SIZE),
            mean=[0.5] * 3,
            std=[0.5] * 3,
            antialias=True,
            padding_mode="replicate",
            inverse_map=True,
            convention="half_pixel",
            memory_format=torch.channels_last,
            layout="CHW",  # said, so that export need not rule out widths of 3 and 4
        )
        responses = self.network(image).reshape(1, -1, 1)
        boxes: Tensor = self.anchors * scale
        scores = torch.cat([responses, -responses], dim=2)
        found = visops.batched_nms(
            boxes, scores, None, iou_threshold=0.1, max_output=20, score_threshold=0.1
        )
        labels, kept = found[:, 1], found[:, 2]
        return boxes[0, kept], scores[0, kept, labels], labels


def line(path: str, found: Sequence[Tensor]) -> str:
    """Return the line that the C++ programs print: the path, then label, score, corners, ..."""
    boxes, scores, labels = (tensor.tolist() for tensor in found)
    words = [path]
    for box, score, label in zip(boxes, scores, labels, strict=True):
        words += [str(label), *[f"{value:.9g}" for value in (score, *box)]]
    return " ".join(words)
