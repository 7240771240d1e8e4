"""Operators on masks against torchvision, pycocotools, SciPy and OpenCV.

Overlaps and boxes: masks of a disc each, as bool, which ours packs in every call; "packed before"
doesn't. The matrix product is of float32 masks.
Components: noise at the density where components are largest, and discs as networks draw them.
OpenCV numbers components in another order: its labels are renumbered for the comparison, outside
of the timing. Small regions: Segment Anything's function, restated, mask by mask. Distances: the
discs, and noise. SciPy's are float64.
Run lengths: one disc a mask, and twelve. pycocotools encodes masks in Fortran's order, which no
network's output has: its best case gets them so, and the other one makes the copy in every call, as
users must. It decodes to that order, too.
Pasting: 28 × 28 probabilities into boxes of 5 to 60 % of the image's sides: detectron2's method for
CPUs, restated, and torchvision's function with a comparison. Suppression, merging and stability:
loops over masks, restated from libraries that have them.
"""

import importlib.util
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import scipy.ndimage
from torchvision.models.detection.roi_heads import paste_masks_in_image
from torchvision.ops import masks_to_boxes

try:
    from pycocotools import mask as coco
except ImportError:
    coco = None

import torch
import visops
from bench.harness import EXACT, Case, Contender, Tolerance, pair, rows

Size = tuple[int, int]
Draw = Callable[[int, int, int], np.ndarray]
EIGHT = np.ones((3, 3), bool)
ROUNDING = Tolerance(max_abs=1e-3, why="float32 throughout")


@lru_cache(maxsize=2)
def noise(count: int, height: int, width: int) -> np.ndarray:
    """As many pixels inside as outside."""
    return np.random.default_rng(0).random((count, height, width)) < 0.5


@lru_cache(maxsize=2)
def discs(count: int, height: int, width: int, each: int = 12) -> np.ndarray:
    """Discs of all sizes."""
    rng = np.random.default_rng(1)
    y, x = np.ogrid[:height, :width]
    masks = np.zeros((count, height, width), bool)
    for mask in masks:
        for _ in range(each):
            cy, cx = rng.uniform(0, height), rng.uniform(0, width)
            radius = rng.uniform(2, height / 6)
            rows = slice(max(0, int(cy - radius)), int(cy + radius) + 2)
            columns = slice(max(0, int(cx - radius)), int(cx + radius) + 2)
            distance = (y[rows] - cy) ** 2 + (x[:, columns] - cx) ** 2
            mask[rows, columns] |= distance < radius**2
    return masks


PICTURES: dict[str, Callable[..., np.ndarray]] = {"noise": noise, "discs": discs}


def in_raster_order(labels: np.ndarray) -> np.ndarray:
    """Labels renumbered in the raster order of their first pixels; 0 stays."""
    flat = labels.reshape(len(labels), -1)
    renumbered = np.empty_like(flat)
    for row, out in zip(flat, renumbered, strict=True):
        values, first, inverse = np.unique(row, return_index=True, return_inverse=True)
        order = np.argsort(np.where(values == 0, -1, first))
        ranks = np.empty(len(values), np.int32)
        ranks[order] = np.arange(len(values)) + (0 if 0 in values else 1)
        out[:] = ranks[inverse]
    return renumbered.reshape(labels.shape)


def each(name: str, call: Callable[[np.ndarray], Any], masks: np.ndarray, **more: Any) -> Contender:
    """A peer's function of one mask, for all of them."""

    alike = more.pop("comparable", np.asarray)

    def compared(results: Sequence[np.ndarray]) -> np.ndarray:
        return np.asarray(alike(np.stack(results)))

    def calls() -> list[np.ndarray]:
        return [np.asarray(call(mask)) for mask in masks]

    return Contender(name, calls, comparable=compared, on_host=True, **more)


def by_cupy(masks: torch.Tensor, name: str) -> list[Contender]:
    """CuPy's function, mask by mask, on a GPU where it is installed; labels have another order."""
    if masks.device.type == "cpu" or importlib.util.find_spec("cupyx") is None:
        return []
    cupy, ndimage = map(importlib.import_module, ("cupy", "cupyx.scipy.ndimage"))
    bytes_ = masks.to(torch.uint8)

    def call() -> None:
        for mask in bytes_:
            getattr(ndimage, name)(cupy.from_dlpack(mask))

    return [Contender("CuPy", call, Tolerance(why="other labels"))]


def components(picture: str, count: int, height: int, width: int) -> list[Contender]:
    """Label the components of each mask."""
    masks = PICTURES[picture](count, height, width)
    tensor, bytes_ = torch.as_tensor(masks), masks.view(np.uint8)

    def opencv(mask: np.ndarray) -> Any:
        return cv2.connectedComponents(mask, connectivity=8)[1]

    def scipys(mask: np.ndarray) -> Any:
        return scipy.ndimage.label(mask, EIGHT)[0]

    return [
        Contender("visops", lambda: visops.connected_components(tensor)),
        each("OpenCV", opencv, bytes_, comparable=in_raster_order),
        each("SciPy", scipys, masks, comparable=np.int32),
        *by_cupy(tensor, "label"),
    ]


def clean_up(mode: Any, count: int, height: int, width: int) -> list[Contender]:
    """Remove regions of fewer than 100 pixels."""
    masks = discs(count, height, width) ^ (noise(count, height, width) & noise(1, height, width))
    tensor, holes = torch.as_tensor(masks), mode == "holes"

    def cleaned(mask: np.ndarray) -> np.ndarray:
        """Segment Anything's function."""
        _, regions, stats, _ = cv2.connectedComponentsWithStats(
            (holes ^ mask).astype(np.uint8), connectivity=8
        )
        small = stats[:, cv2.CC_STAT_AREA] < 100
        small[0] = holes
        return np.asarray(small[regions] if holes else (~small)[regions] & mask)

    def ours() -> Any:
        return visops.remove_small_regions(tensor, 100, mode)

    return [
        Contender("visops", ours, comparable=lambda result: result[0]),
        each("OpenCV, as SAM", cleaned, masks),
    ]


def distances(picture: str, count: int, height: int, width: int) -> list[Contender]:
    """Measure exact Euclidean distances."""
    masks = PICTURES[picture](count, height, width)
    tensor, bytes_ = torch.as_tensor(masks), masks.view(np.uint8)

    def opencv(mask: np.ndarray) -> np.ndarray:
        return np.asarray(cv2.distanceTransform(mask, cv2.DIST_L2, cv2.DIST_MASK_PRECISE))

    scipys, rounding = scipy.ndimage.distance_transform_edt, {"tolerance": ROUNDING}
    return [
        Contender("visops", lambda: visops.distance_transform(tensor)),
        each("OpenCV", opencv, bytes_, **rounding),
        each("SciPy", scipys, masks, comparable=np.float32, **rounding),
        *by_cupy(tensor, "distance_transform_edt"),
    ]


def single_discs(count: int, height: int, width: int) -> np.ndarray:
    """One disc a mask, as a detector's masks are."""
    return discs(count, height, width, 1)


def ious(masks: torch.Tensor) -> torch.Tensor:
    """Overlaps of all pairs by a matrix product."""
    flat = masks.flatten(1).float()
    common, area = flat @ flat.T, flat.sum(1)
    return common / (area[:, None] + area[None] - common)


def overlaps(count: int, height: int, width: int) -> list[Contender]:
    """Overlaps of all pairs."""
    masks = torch.as_tensor(single_discs(count, height, width))
    packed = visops.pack_masks(masks)

    def cocos() -> np.ndarray:
        encoded = coco.encode(np.asfortranarray(masks.numpy().view(np.uint8).transpose(1, 2, 0)))
        return np.asarray(coco.iou(encoded, encoded, [0] * count))

    def as_floats(found: np.ndarray) -> np.ndarray:
        return np.nan_to_num(found).astype(np.float32)

    contenders = [
        Contender("visops", lambda: visops.mask_iou(masks, masks)),
        Contender("packed before", lambda: visops.mask_iou(packed, packed), bound=True),
        Contender("matrix product", lambda: ious(masks), ROUNDING),
    ]
    if coco is not None:
        contenders.append(Contender("pycocotools", cocos, ROUNDING, as_floats, on_host=True))
    return contenders


def boxes(count: int, height: int, width: int) -> list[Contender]:
    """The box of each mask."""
    masks = torch.as_tensor(single_discs(count, height, width))
    return pair("torchvision", visops.masks_to_boxes, masks_to_boxes, [masks])


def detections(count: int, height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities [count, 28, 28], and boxes within the image."""
    rng = np.random.default_rng(2)
    sides = rng.uniform(0.05, 0.6, (count, 2)) * (width, height)
    starts = rng.uniform(0, 1, (count, 2)) * ((width, height) - sides)
    boxes = torch.as_tensor(np.concatenate([starts, starts + sides], 1)).float()
    coarse = torch.as_tensor(rng.random((count, 1, 6, 6))).float()
    masks = torch.nn.functional.interpolate(coarse, (28, 28), mode="bicubic").clamp(0, 1)
    return masks[:, 0], boxes


def paste_one_by_one(masks: torch.Tensor, boxes: torch.Tensor, size: Size) -> torch.Tensor:
    """detectron2's pasting on CPUs."""
    height, width = size
    pasted = torch.zeros(len(masks), height, width, dtype=torch.bool)
    for i, box in enumerate(boxes):
        x1, y1 = (int(v) for v in (box[:2].floor() - 1).clamp(min=0))
        x2, y2 = min(int(box[2].ceil()) + 1, width), min(int(box[3].ceil()) + 1, height)
        columns = (torch.arange(x1, x2) + 0.5 - box[0]) / (box[2] - box[0]) * 2 - 1
        rows = (torch.arange(y1, y2) + 0.5 - box[1]) / (box[3] - box[1]) * 2 - 1
        grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), 2)
        numbers = torch.nn.functional.grid_sample(masks[i : i + 1, None], grid[None])
        pasted[i, y1:y2, x1:x2] = numbers[0, 0] >= 0.5
    return pasted


def paste_all(masks: torch.Tensor, boxes: torch.Tensor, size: Size) -> torch.Tensor:
    """torchvision's."""
    return (paste_masks_in_image(masks[:, None], boxes, size) > 0.5)[:, 0]


PASTES = {
    "detectron2": ("detectron2's method", paste_one_by_one),
    "torchvision": ("torchvision", paste_all),
}


def pasting(convention: Any, count: int, height: int, width: int) -> list[Contender]:
    """Masks of detections as bools of the image's size."""
    masks, boxes, size = *detections(count, height, width), (height, width)
    few = Tolerance(max_abs=1, mean_abs=1e-5, why="ties at the threshold")

    def ours(out: Any) -> Callable[[], Any]:
        return lambda: visops.paste_masks(masks, boxes, size, out=out, convention=convention)

    name, paste = PASTES[convention]
    return [
        Contender("visops", ours("bool"), comparable=lambda m: m.byte()),
        Contender("packed", ours("packed"), bound=True, comparable=lambda p: p.unpack().byte()),
        Contender(
            name,
            lambda: paste(masks, boxes, size),
            few,
            lambda m: m.byte(),
            on_host=convention == "detectron2",
        ),
    ]


def scored(count: int, height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Masks and their scores."""
    masks = torch.as_tensor(single_discs(count, height, width))
    torch.manual_seed(0)
    return masks, torch.rand(count)


def suppression(*shape: int) -> list[Contender]:
    """What is kept of masks by score."""
    masks, scores = scored(*shape)
    packed = visops.pack_masks(masks)

    def suppressed() -> torch.Tensor:
        order = scores.argsort(descending=True, stable=True)
        meets = ious(masks[order]) > 0.3
        kept: list[int] = []
        for i in range(len(order)):
            if not meets[i, kept].any():
                kept.append(i)
        return order[kept]

    return [
        Contender("visops", lambda: visops.mask_nms(masks, scores, 0.3)),
        Contender("packed before", lambda: visops.mask_nms(packed, scores, 0.3), bound=True),
        Contender("matrix product", suppressed),
    ]


def merging(*shape: int) -> list[Contender]:
    """What is drawn of masks by score."""
    masks, scores = scored(*shape)

    def merged() -> torch.Tensor:
        labels, drawn = torch.zeros(shape[1:], dtype=torch.int32), 0
        for i in torch.argsort(-scores).tolist():
            area = int(masks[i].sum())
            covered = int((masks[i] & (labels > 0)).sum())
            if area > 0 and covered / area <= 0.5:
                drawn += 1
                labels[masks[i] & (labels == 0)] = drawn
        return labels

    def ours() -> torch.Tensor:
        return visops.merge_masks(masks, scores)[0]

    return pair("detectron2's method", ours, merged, on_host=True)


def stability(count: int, height: int, width: int) -> list[Contender]:
    """Segment Anything's stability scores."""
    torch.manual_seed(0)
    logits = torch.randn(count, height, width)

    def two_masks() -> torch.Tensor:
        def pixels(threshold: float) -> torch.Tensor:
            return (logits > threshold).sum(-1, dtype=torch.int16).sum(-1, dtype=torch.int32)

        return pixels(1.0) / pixels(-1.0)

    def ours() -> torch.Tensor:
        return visops.stability_score(logits, 0.0, 1.0)

    return pair("Segment Anything's method", ours, two_masks, (), ROUNDING)


def fortran(masks: np.ndarray) -> np.ndarray:
    """A copy that pycocotools takes: uint8 ``[H, W, N]``, column by column."""
    return np.asfortranarray(masks.view(np.uint8).transpose(1, 2, 0))


def texts(rles: list[dict[str, Any]]) -> list[np.ndarray]:
    """The bytes of all masks."""
    return [np.frombuffer(rle["counts"], np.uint8).copy() for rle in rles]


def encode(draw: Draw, count: int, height: int, width: int) -> list[Contender]:
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


def decode(draw: Draw, count: int, height: int, width: int) -> list[Contender]:
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


def encoded_overlaps(draw: Draw, count: int, height: int, width: int) -> list[Contender]:
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


def encoded_cases() -> list[Case]:
    """Run lengths; none without pycocotools."""
    if coco is None:
        return []
    table = {
        f"{count} × 800 × 1333, {name}": (draw, count, 800, 1333)
        for name, draw in (("one disc", single_discs), ("discs", discs))
        for count in (10, 100)
    }
    drawn = {f"100 of {corners} corners": (corners, 100, 800, 1333) for corners in (20, 200)}
    return [
        *rows("encode", encode, table, "^10 "),
        *rows("decode", decode, table),
        *rows("encoded overlaps", encoded_overlaps, table),
        *rows("polygons", polygons, drawn),
    ]


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    one, ten, hundred = (1, 512, 512), (10, 800, 1333), (100, 800, 1333)
    pictures: dict[str, tuple[Callable[..., list[Contender]], Sequence[str]]] = {
        "components": (components, ("noise", "discs")),
        "small regions": (clean_up, ("holes", "islands")),
        "distances": (distances, ("noise", "discs")),
    }
    cases = []
    for group, (build, kinds) in pictures.items():
        table = {
            f"{label}, {kind}": (kind, *size)
            for label, size in (("512 × 512", one), ("100 × 800 × 1333", hundred))
            for kind in kinds
        }
        cases += rows(group, build, table, "^512", on_cuda=True)
    many: list[tuple[str, Callable[..., list[Contender]], str]] = [
        ("overlaps", overlaps, ""),
        ("boxes", boxes, ""),
        ("pasting", pasting, "detectron2"),
        ("pasting", pasting, "torchvision"),
        ("suppression", suppression, ""),
        ("merging", merging, ""),
        ("stability", stability, ""),
    ]
    for group, build, convention in many:
        given, note = ([convention], f", {convention}") if convention else ([], "")
        of = {f"{size[0]} × 800 × 1333{note}": (*given, *size) for size in (ten, hundred)}
        cases += rows(group, build, of, "^10 ", on_cuda=True)
    return cases + encoded_cases()
