"""Greedy non-maximum suppression against torchvision, index for index.

Boxes are float32, scores random, the threshold 0.5. "uniform": sides of 5 to 65 anywhere in
1000 × 1000, the more the denser; "clustered": about fifty proposals to an object; "one pile": all
on one spot. A detector's batch is 4 images of 8,400 boxes and 80 classes; one score in a
hundred passes the threshold, and an image has at most 300 results: torchvision's users select,
suppress by class and cut image by image. soft_nms and nms_rotated are compared with serial loops
over all pairs in C++ (bench/suppression/loops.cpp): mmcv's algorithm, and Sutherland and Hodgman's
clipping; neither library can be installed for current versions of torch.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import visops
from bench.harness import Case, Contender, Tolerance, pair, rows
from bench.suppression import loops
from bench.suppression.boxes import clustered, pile, uniform
from torch import Tensor
from torchvision.ops import boxes as peer

THRESHOLD = 0.5
SOFT: dict[str, Any] = {"iou_threshold": 0.3, "sigma": 0.5, "min_score": 0.001}
ROUNDING = Tolerance(
    max_abs=2e-3, mean_abs=1e-6, why="boxes at min_score, and exp, by the last place"
)
LAYOUTS = {"uniform": uniform, "clustered": clustered}


def distinct_scores(count: int) -> Tensor:
    """Distinct scores: torchvision's loop does not order ties by index."""
    return torch.randperm(count).float() / count


def one_class(boxes: Callable[[int], Tensor], count: int) -> list[Contender]:
    """One segment."""
    torch.manual_seed(count)
    given = boxes(count), torch.rand(count), THRESHOLD
    return pair("torchvision", visops.nms, peer.nms, given)


def growth(count: int) -> list[Contender]:
    """Ten times the boxes in ten times the area: no peer would end."""
    torch.manual_seed(count)
    b, s = uniform(count, 1000.0 * (count / 10_000) ** 0.5), torch.rand(count)
    return [Contender("visops", lambda: visops.nms(b, s, THRESHOLD))]


def classes(count: int, kinds: int) -> list[Contender]:
    """Labels distributed like COCO's: a few classes make up most boxes."""
    torch.manual_seed(count)
    b, s = uniform(count), distinct_scores(count)
    labels = torch.multinomial(1.0 / torch.arange(1.0, kinds + 1), count, replacement=True)
    given, name = (b, s, labels, THRESHOLD), "torchvision, a loop over classes"
    return pair(name, visops.batched_nms, peer._batched_nms_vanilla, given)


def detector(images: int, count: int, kinds: int) -> list[Contender]:
    """Batches of images with classes."""
    torch.manual_seed(images)
    b = torch.stack([uniform(count, 640.0) for _ in range(images)])
    s = distinct_scores(images * count * kinds).reshape(images, count, kinds)
    least, most = 0.99, 300

    def torchvision() -> Tensor:
        rows = []
        for image in range(images):
            box, kind = torch.nonzero(s[image] > least, as_tuple=True)
            scores = s[image, box, kind]
            keep = peer.batched_nms(b[image, box], scores, kind, THRESHOLD)[:most]
            rows.append(torch.stack([torch.full_like(keep, image), kind[keep], box[keep]], dim=1))
        return torch.cat(rows)

    return [
        Contender(
            "visops",
            lambda: visops.batched_nms(
                b, s, None, THRESHOLD, max_output=most, score_threshold=least
            ),
        ),
        Contender("torchvision, image by image", torchvision),
    ]


def soft(layout: str, count: int, method: Any) -> list[Contender]:
    """One segment."""
    torch.manual_seed(count)
    b, s = LAYOUTS[layout](count), torch.rand(count)

    def by_box(result: tuple[Tensor, Tensor]) -> Tensor:
        """New scores [N]; 0 where a box was dropped."""
        return result[1].new_zeros(count).index_put((result[0],), result[1])

    def ours() -> tuple[Tensor, Tensor]:
        return visops.soft_nms(b, s, method=method, **SOFT)

    def theirs() -> tuple[Tensor, Tensor]:
        return loops.soft_nms(b, s, method, **SOFT)

    return [
        Contender("visops", ours, comparable=by_box),
        Contender("mmcv's loop", theirs, ROUNDING, by_box, on_host=True),
    ]


def rotated(layout: str, count: int) -> list[Contender]:
    """One segment of boxes with any angle."""
    torch.manual_seed(count)
    corners, s = LAYOUTS[layout](count), torch.rand(count)
    size = corners[:, 2:] - corners[:, :2]
    angle = torch.rand(count, 1) * math.pi
    b = torch.cat([corners[:, :2] + size / 2, size, angle], 1)
    given, name = (b, s, THRESHOLD), "a loop over all pairs"
    return pair(name, visops.nms_rotated, loops.nms_rotated, given, on_host=True)


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    single = {
        f"{name}, {count:,} boxes": (boxes, count)
        for name, boxes in LAYOUTS.items()
        for count in (100, 1_000, 10_000, 100_000)
    }
    single["one pile, 1,000 boxes"] = (pile, 1_000)
    growing = {f"{count:,} boxes": (count,) for count in (100_000, 1_000_000)}
    many = {"50,000 boxes": (50_000, 80)}
    batch = {"4 × 8,400 boxes, 80 classes": (4, 8_400, 80)}
    softened = {
        f"{method}, {layout}, {count:,} boxes": (layout, count, method)
        for method in ("linear", "gaussian", "hard")
        for layout in LAYOUTS
        for count in (100, 1_000, 5_000)
    }
    turned = {f"{layout}, 10,000 boxes": (layout, 10_000) for layout in LAYOUTS}
    # One segment: neither uses a second thread.
    return [
        *rows("one class", one_class, single, " 1(00|,000) ", threads=1, on_cuda=True),
        *rows("growth at constant density", growth, growing, threads=1, on_cuda=True),
        *rows("80 classes in one call", classes, many, on_cuda=True),
        *rows("a detector's batch", detector, batch, "", images=4, on_cuda=True),
        *rows("soft_nms", soft, softened, "uniform, 1,000", threads=1, on_cuda=True),
        *rows("nms_rotated", rotated, turned, "clustered", threads=1, on_cuda=True),
    ]
