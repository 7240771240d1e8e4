"""COCO's run lengths against pycocotools: encoding, decoding, overlaps and polygons.

pycocotools encodes masks in Fortran's order, which no network's output has: its best case gets
them so, and the other one makes the copy in every call, as users must. It decodes to that order,
too.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import visops
from bench.harness import EXACT, Case, Contender, pair, rows

try:
    from pycocotools import mask as coco
except ImportError:
    coco = None

Masks = Callable[[int, int, int], np.ndarray]


def fortran(masks: np.ndarray) -> np.ndarray:
    """A copy that pycocotools takes: uint8 ``[H, W, N]``, column by column."""
    return np.asfortranarray(masks.view(np.uint8).transpose(1, 2, 0))


def texts(rles: list[dict[str, Any]]) -> list[np.ndarray]:
    """The bytes of all masks."""
    return [np.frombuffer(rle["counts"], np.uint8).copy() for rle in rles]


def encode(draw: Masks, count: int, height: int, width: int) -> list[Contender]:
    """Masks to compressed RLE."""
    masks = draw(count, height, width)
    tensor = torch.from_numpy(masks)
    packed, columns = visops.pack_masks(tensor), fortran(masks)
    calls: dict[str, Callable[[], Any]] = {
        "visops": lambda: visops.masks_to_rle(tensor),
        "packed before": lambda: visops.masks_to_rle(packed),
        "pycocotools, columns given": lambda: coco.encode(columns),
        "pycocotools, with the copy": lambda: coco.encode(fortran(masks)),
    }
    return [
        Contender(name, call, EXACT, texts, bound=name == "packed before")
        for name, call in calls.items()
    ]


def decode(draw: Masks, count: int, height: int, width: int) -> list[Contender]:
    """Compressed RLE to masks."""
    rles = visops.masks_to_rle(draw(count, height, width))

    def to_bits() -> Any:
        return visops.rle_to_masks(rles, out="packed")

    def unpacked(packed: Any) -> torch.Tensor:
        return packed.unpack().to(torch.uint8)

    def by_rows(masks: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(masks.transpose(2, 0, 1))

    return [
        Contender("visops", lambda: visops.rle_to_masks(rles, out="uint8")),
        Contender("to bits", to_bits, comparable=unpacked, bound=True),
        Contender("pycocotools", lambda: coco.decode(rles), comparable=by_rows),
    ]


def overlaps(draw: Masks, count: int, height: int, width: int) -> list[Contender]:
    """Overlaps of all pairs, from RLE."""
    rles = visops.masks_to_rle(draw(count, height, width))

    def cocos() -> np.ndarray:
        return np.asarray(coco.iou(rles, rles, [0] * count))

    return pair("pycocotools", lambda: visops.rle_iou(rles, rles), cocos)


def polygons(corners: int, count: int, height: int, width: int) -> list[Contender]:
    """A polygon an object to compressed RLE."""
    rng = np.random.default_rng(2)
    angles = np.linspace(0, 2 * np.pi, corners, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], 1)
    objects = []
    for _ in range(count):
        center = rng.uniform(0, (width, height))
        radii = rng.uniform(2, height / 6) * rng.uniform(0.8, 1.2, (corners, 1))
        objects.append([(center + circle * radii).reshape(-1).tolist()])
    size = height, width

    def cocos() -> list[dict[str, Any]]:
        return [coco.merge(coco.frPyObjects(parts, *size)) for parts in objects]

    def ours() -> list[dict[str, Any]]:
        return visops.polygons_to_masks(objects, size, out="rle")

    return [
        Contender("visops", ours, comparable=texts),
        Contender("pycocotools", cocos, comparable=texts),
    ]


def cases(draws: dict[str, Masks]) -> list[Case]:
    """Cases of these kinds of masks; none without pycocotools."""
    if coco is None:
        return []
    table = {
        f"{count} × 800 × 1333, {name}": (draw, count, 800, 1333)
        for name, draw in draws.items()
        for count in (10, 100)
    }
    outlines = {f"100 of {corners} corners": (corners, 100, 800, 1333) for corners in (20, 200)}
    return [
        *rows("encode", encode, table, "^10 "),
        *rows("decode", decode, table),
        *rows("encoded overlaps", overlaps, table),
        *rows("polygons", polygons, outlines),
    ]
