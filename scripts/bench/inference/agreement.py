"""Whether two runs say the same about each photo.

A network's last bits depend on how many images it gets at once, so numbers are compared with a
tolerance. Where such a bit decides, a box may be there in one run and not in the other: its score
is at the threshold or at that of the last box which an image may have, or its overlap with a better
box is at the limit. Those are counted, and looked at: any other difference is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .networks import IOU, MOST, SCORE

Record = dict[str, Any]
Boxes = npt.NDArray[np.float64]

SCORE_TOLERANCE = 1e-4  # of scores, which are at most 1
BOX_TOLERANCE = 0.05  # pixels of the photo
OVERLAP_TOLERANCE = 1e-3


@dataclass
class Agreement:
    """What a comparison has found."""

    images: int = 0
    boxes: int = 0
    equal: int = 0  # images with the same records, to the last bit
    score: float = 0.0  # greatest difference
    box: float = 0.0
    ties: int = 0  # boxes or classes that a last bit decides
    errors: list[str] = field(default_factory=list)

    @property
    def fine(self) -> bool:
        return not self.errors

    def add(self, other: Agreement) -> None:
        """Add that of other photos."""
        self.images += other.images
        self.boxes += other.boxes
        self.equal += other.equal
        self.score = max(self.score, other.score)
        self.box = max(self.box, other.box)
        self.ties += other.ties
        self.errors += other.errors


def _overlaps(box: Boxes, others: Boxes) -> Boxes:
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    common = (high - low).clip(min=0).prod(axis=1)
    areas = (others[:, 2:] - others[:, :2]).prod(axis=1) + (box[2:] - box[:2]).prod()
    result: Boxes = common / np.maximum(areas - common, 1e-12)
    return result


def _decided_by_a_bit(
    index: int, boxes: Boxes, record: Record, other_boxes: Boxes, other: Record
) -> bool:
    """Whether a box may be missing in the other run."""
    score, label = record["scores"][index], record["labels"][index]
    if abs(score - SCORE) <= SCORE_TOLERANCE:
        return True
    if len(other["scores"]) == MOST and score <= other["scores"][-1] + SCORE_TOLERANCE:
        return True
    # Kept there is a box, of no lower score, whose overlap with it is just above the limit; or one
    # that itself is decided by a bit, and suppresses it.
    rivals = (np.array(other["labels"]) == label) & (
        np.array(other["scores"]) >= score - SCORE_TOLERANCE
    )
    if not rivals.any():
        return False
    overlaps = _overlaps(boxes[index], other_boxes[rivals])
    if (abs(overlaps - IOU) <= OVERLAP_TOLERANCE).any():
        return True
    own = [i for i, kind in enumerate(record["labels"]) if kind == label]
    new = [
        box
        for box in other_boxes[rivals][overlaps > IOU]
        if not (abs(boxes[own] - box).max(axis=1) <= BOX_TOLERANCE).any()
    ]
    return bool(new)


def _compare_boxes(name: str, ours: Record, theirs: Record, result: Agreement) -> None:
    first, second = (np.array(r["boxes"], np.float64).reshape(-1, 4) for r in (ours, theirs))
    result.boxes += len(first)
    free = set(range(len(second)))
    lost = []
    for i, (box, label) in enumerate(zip(first, ours["labels"], strict=True)):
        candidates = [j for j in free if theirs["labels"][j] == label]
        distances = [float(abs(second[j] - box).max()) for j in candidates]
        if not distances or min(distances) > BOX_TOLERANCE:
            lost.append(i)
            continue
        j = candidates[int(np.argmin(distances))]
        free.remove(j)
        result.box = max(result.box, min(distances))
        difference = abs(ours["scores"][i] - theirs["scores"][j])
        result.score = max(result.score, difference)
        if difference > SCORE_TOLERANCE:
            result.errors.append(f"{name}: box {i} has a score that differs by {difference:.2g}")
    for index in lost:
        _tie_or_error(name, index, first, ours, second, theirs, result)
    for index in sorted(free):
        _tie_or_error(name, index, second, theirs, first, ours, result)


def _tie_or_error(
    name: str,
    index: int,
    boxes: Boxes,
    record: Record,
    other_boxes: Boxes,
    other: Record,
    result: Agreement,
) -> None:
    if _decided_by_a_bit(index, boxes, record, other_boxes, other):
        result.ties += 1
    else:
        score = record["scores"][index]
        result.errors.append(f"{name}: a box with a score of {score:.4f} is in one run only")


def _compare_classes(name: str, ours: Record, theirs: Record, result: Agreement) -> None:
    differences = abs(np.array(ours["scores"]) - np.array(theirs["scores"]))
    result.score = max(result.score, float(differences.max()))
    if differences.max() > SCORE_TOLERANCE:
        result.errors.append(f"{name}: scores differ by {differences.max():.2g}")
    elif ours["labels"] != theirs["labels"]:
        # Equal scores at the same ranks with other labels: those labels' scores are a tie.
        changed = [a != b for a, b in zip(ours["labels"], theirs["labels"], strict=True)]
        result.ties += sum(changed)
        scores = np.array(ours["scores"])
        for rank in np.nonzero(changed)[0]:
            label = theirs["labels"][rank]
            place = ours["labels"].index(label) if label in ours["labels"] else len(scores) - 1
            if abs(scores[place] - scores[rank]) > 2 * SCORE_TOLERANCE:
                result.errors.append(f"{name}: rank {rank} has another class")


def compare(ours: Sequence[Record], theirs: Sequence[Record]) -> Agreement:
    """Compare the records of two runs, in any order."""
    result = Agreement()
    first, second = ({r["image"]: r for r in records} for records in (ours, theirs))
    if len(first) != len(ours) or len(second) != len(theirs):
        result.errors.append("a photo has two records")
    for name in sorted(first.keys() ^ second.keys()):
        result.errors.append(f"{name}: in one run only")
    for name in sorted(first.keys() & second.keys()):
        a, b = first[name], second[name]
        result.images += 1
        result.equal += a.get("outputs") == b.get("outputs") and a["status"] == b["status"]
        if a["status"] != b["status"]:
            result.errors.append(f"{name}: {a['status']} in one run, {b['status']} in the other")
        elif a["status"] == "ok":
            _compare_outputs(name, a["outputs"], b["outputs"], result)
    return result


def _compare_outputs(
    name: str, ours: Mapping[str, Record], theirs: Mapping[str, Record], result: Agreement
) -> None:
    if ours.keys() != theirs.keys():
        result.errors.append(f"{name}: of other networks")
        return
    for network in ours:
        both = ours[network], theirs[network]
        check = _compare_boxes if "boxes" in both[0] else _compare_classes
        check(f"{name}, {network}", *both, result)
