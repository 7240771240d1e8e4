"""Masks of a problem, and the options of operators on them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
import visops
from torch import Tensor


def masks_of(p: Any) -> Tensor:
    """Return ``[N, H, W]``, bool or uint8."""
    drawn = p.draw.tensor((p.batch, p.height, p.width), torch.float64)
    inside: Tensor = drawn < p.draw.choice((0.2, 0.6, 0.99))
    return inside if p.draw.chance(0.6) else inside.byte() * 255


def bits_of(p: Any) -> Tensor:
    """Return ``[N, H, words]``, int64."""
    shape = (p.batch, p.height, (p.width + 63) // 64)
    bits: Tensor = p.draw.tensor(shape, torch.float64) * 2**60
    return bits.to(torch.int64)


def runs_of(p: Any) -> tuple[Tensor, Tensor]:
    """Return where runs of ``[N, H, W]`` end, some at odd places, and where masks begin."""
    if "runs" not in p.__dict__:
        per_mask = p.draw.choice((1, 2, 7))
        pixels = p.height * p.width
        ends = p.draw.tensor((p.batch, per_mask), torch.float64) * (pixels + 1)
        if p.draw.chance(0.8):
            ends = ends.sort(1).values
            ends[:, -1:] = pixels
        offsets = torch.arange(p.batch + 1) * per_mask
        p.runs = ends.flatten().to(torch.int32), offsets
    found: tuple[Tensor, Tensor] = p.runs
    return found


def rle_of(p: Any) -> Any:
    """Return RLEs of one size, of lists or text; some are odd."""
    if p.draw.chance(0.7):
        found = visops.masks_to_rle(masks_of(p), compressed=p.draw.chance(0.5))
    else:
        ends, offsets = runs_of(p)
        found = []
        for begin, end in zip(offsets.tolist(), offsets.tolist()[1:], strict=False):
            counts = ends[begin:end].diff(prepend=ends.new_zeros(1)).tolist()
            text = p.draw.choice((b"0", b"52203", "P8MN0Oo", b"\xff"))
            found.append(
                {"size": [p.height, p.width], "counts": text if p.draw.chance(0.3) else counts}
            )
    return found if p.draw.chance(0.9) or not found else found[0]


def polygons_of(p: Any) -> list[list[list[float]]]:
    """Return objects of some polygons, partly beyond the image."""
    corners = p.draw.between(3, 9)
    spread = p.draw.choice((1.0, 1.0, 3.0, 1e5))
    return [
        [
            (p.draw.tensor((2 * corners,), torch.float64, -0.5, 1.5) * p.width * spread).tolist()
            for _ in range(p.draw.between(0, 3))
        ]
        for _ in range(p.batch)
    ]


def small_masks_of(p: Any) -> Tensor:
    """Return ``[K, h, w]``, floating."""
    shape = (p.count, p.draw.between(1, 9), p.draw.between(1, 9))
    small: Tensor = p.draw.tensor(shape, torch.float64).to(p.box_dtype)
    return small


def order_of(p: Any) -> Tensor:
    """Return the masks in another order."""
    order: Tensor = p.draw.tensor((p.batch,), torch.float64).argsort()
    return order


def _arguments_of(names: str, **values: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    return {f"{op}.{name}": value for op in names.split() for name, value in values.items()}


_PASTING = "paste_masks paste_binary_masks paste_masks_backward"
MASKS_BY_OPERATOR: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        **_arguments_of(
            _PASTING,
            masks=small_masks_of,
            boxes=lambda p: p.corners(),
            size=lambda p: [p.height, p.width],
            mask_size=lambda p: [p.draw.between(1, 9), p.draw.between(1, 9)],
            threshold=lambda p: p.draw.choice((0.5, 0.1, -1.0)),
            convention=lambda p: "torchvision",
            padding=lambda p: p.draw.between(0, 3),
            grad=lambda p: p.draw.tensor((p.count, p.height, p.width), torch.float64).to(
                p.box_dtype
            ),
        ),
        **_arguments_of(
            "paste_masks", out=lambda p: p.draw.choice(("bool", "uint8", "packed", "rle"))
        ),
        **_arguments_of(
            "paste_binary_masks", out=lambda p: p.draw.choice(("bool", "uint8", "packed"))
        ),
        **_arguments_of(
            "suppress_masks merge_masks mask_nms",
            order=order_of,
            takes_part=lambda p: p.integers(p.batch, 2).to(torch.bool),
            idxs=lambda p: p.integers(p.batch, 3),
            scores=lambda p: p.scores(p.batch),
            score_threshold=lambda p: p.draw.choice((None, 0.3)),
        ),
        **_arguments_of(
            "stability_score",
            logits=lambda p: p.draw.tensor((p.batch, p.height, p.width), torch.float64),
            mask_threshold=lambda p: 0.4,
            threshold_offset=lambda p: 0.2,
        ),
    }
)

MASK_VALUES: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "masks": masks_of,
        "masks1": masks_of,
        "masks2": masks_of,
        "bits": bits_of,
        "packed": lambda p: False,
        "packed1": lambda p: False,
        "packed2": lambda p: False,
        "iscrowd": lambda p: p.integers(p.batch, 2).to(torch.bool),
        "width": lambda p: p.width,
        "ends": lambda p: runs_of(p)[0],
        "offsets": lambda p: runs_of(p)[1],
        "rles": rle_of,
        "rles1": rle_of,
        "rles2": rle_of,
        "polygons": polygons_of,
        "compressed": lambda p: p.draw.chance(0.5),
        "dilation_ratio": lambda p: p.draw.choice((0.02, 0.3)),
        "overlap_threshold": lambda p: p.draw.choice((0.0, 0.5, 1.0)),
        "return_empty": lambda p: p.draw.chance(0.5),
        "connectivity": lambda p: p.draw.choice((4, 8)),
        "regions": lambda p: p.draw.between(0, 9),
        "max_components": lambda p: None,
        "return_stats": lambda p: p.draw.chance(0.5),
        "min_area": lambda p: p.draw.between(0, 9),
        "metric": lambda p: p.draw.choice(("euclidean", "taxicab", "chessboard")),
        "spacing": lambda p: [],
        "dims": lambda p: p.draw.choice((2, 3)),
        "return_indices": lambda p: p.draw.chance(0.5),
    }
)
