"""Greedy non-maximum suppression against torchvision, index for index.

Boxes are float32, scores random, the threshold 0.5. "uniform": sides of 5 to 65 anywhere in
1000 × 1000, the more the denser; "clustered": about fifty proposals to an object; "one pile": all
on one spot; "mixed": sides of 1 to 1000. "growth" keeps the density of 10,000 boxes, and has no
peer that would end. A detector's batch is 4 images of 8,400 boxes and 80 classes; one score in a
hundred passes the threshold, and an image has at most 300 results: torchvision's users select,
suppress by class and cut image by image. soft_nms and nms_rotated are compared with serial loops
over all pairs in C++ (bench/suppression/loops.cpp): mmcv's algorithm, and Sutherland and Hodgman's
clipping; neither library can be installed for current versions of torch.
"""

from collections.abc import Callable

import torch
import visops
from bench.harness import Case, Contender, Tolerance, pair, rows
from bench.suppression import variants
from bench.suppression.boxes import clustered, mixed, pile, uniform
from torch import Tensor
from torchvision.ops import boxes as peer

THRESHOLD = 0.5
TRICK = Tolerance(
    fraction=0.0, why="shifted coordinates round differently: not timed where that shows"
)


def distinct_scores(count: int) -> Tensor:
    """Distinct scores: torchvision's loop does not order ties by index."""
    return torch.randperm(count).float() / count


def one_class(boxes: Callable[[int], Tensor], count: int, floor: float | None) -> list[Contender]:
    """One segment."""
    torch.manual_seed(count)
    given = boxes(count), torch.rand(count), THRESHOLD
    return pair("torchvision", visops.nms, peer.nms, given, floor=floor)


def growth(count: int) -> list[Contender]:
    """Ten times the boxes in ten times the area."""
    torch.manual_seed(count)
    b, s = uniform(count, 1000.0 * (count / 10_000) ** 0.5), torch.rand(count)
    return [Contender("visops", lambda: visops.nms(b, s, THRESHOLD))]


def classes(count: int, kinds: int) -> list[Contender]:
    """Labels distributed like COCO's: a few classes make up most boxes."""
    torch.manual_seed(count)
    b, s = uniform(count), distinct_scores(count)
    labels = torch.multinomial(1.0 / torch.arange(1.0, kinds + 1), count, replacement=True)
    return [
        Contender("visops", lambda: visops.batched_nms(b, s, labels, THRESHOLD)),
        Contender(
            "torchvision, a loop over classes",
            lambda: peer._batched_nms_vanilla(b, s, labels, THRESHOLD),
            floor=15.0 if count == 50_000 else None,
        ),
        Contender(
            "torchvision, shifted coordinates",
            lambda: peer._batched_nms_coordinate_trick(b, s, labels, THRESHOLD),
            TRICK,
            floor=15.0 if count == 50_000 else None,
        ),
    ]


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


def all_cases() -> list[Case]:
    """The cases that this machine can run."""
    kinds = {"uniform": uniform, "clustered": clustered, "one pile": pile, "mixed": mixed}
    floors = {100: 1.0, 1_000: 12.0, 10_000: 100.0, 100_000: 300.0}
    single = {
        f"{name}, {count:,} boxes": (boxes, count, floors[count] if name == "uniform" else None)
        for name, boxes in kinds.items()
        for count in floors
        if count < 100_000 or name in ("uniform", "clustered")
    }
    growing = {f"{count:,} boxes": (count,) for count in (10_000, 100_000, 1_000_000)}
    many = {f"{count:,} boxes": (count, 80) for count in (1_000, 10_000, 50_000)}
    batch = {"4 × 8,400 boxes, 80 classes": (4, 8_400, 80)}
    # One segment: neither uses a second thread.
    return [
        *rows("one class", one_class, single, " 1(00|,000) ", threads=1, on_cuda=True),
        *rows("growth at constant density", growth, growing, threads=1, on_cuda=True),
        *rows("80 classes in one call", classes, many, "^1,000", on_cuda=True),
        *rows("a detector's batch", detector, batch, "", images=4, on_cuda=True),
        *variants.cases(),
    ]
