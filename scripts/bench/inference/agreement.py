"""Whether two runs agree on each photo.

A network's last bits depend on how many images it gets at once, so numbers are compared with a
tolerance. Where such a bit decides, a box may be there in one run and not in the other: its score
is at the threshold or at that of the last box which an image may have, or its overlap with a better
box is at the limit. Those are counted, and looked at: any other difference is an error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .networks import IOU, MOST, SCORE

Record = dict[str, Any]
Boxes = npt.NDArray[np.float64]

SCORE_TOLERANCE = 1e-4  # of scores within [0, 1]
BOX_TOLERANCE = 0.05  # pixels of the photo
OVERLAP_TOLERANCE = 1e-3


@dataclass
class Agreement:
    """The result of a comparison."""

    equal: int = 0  # images with bit-identical records
    ties: int = 0  # boxes or classes that the last bit decides
    errors: list[str] = field(default_factory=list)


def _overlaps(box: Boxes, others: Boxes) -> Boxes:
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    common = (high - low).clip(min=0).prod(axis=1)
    areas = (others[:, 2:] - others[:, :2]).prod(axis=1) + (box[2:] - box[:2]).prod()
    result: Boxes = common / np.maximum(areas - common, 1e-12)
    return result


@dataclass(frozen=True)
class _Side:
    """The boxes of a photo in one of the two runs."""

    boxes: Boxes
    labels: Sequence[int]
    scores: Sequence[float]

    @classmethod
    def of(cls, record: Record) -> "_Side":
        boxes = np.array(record["boxes"], np.float64).reshape(-1, 4)
        return cls(boxes, record["labels"], record["scores"])

    def rivals(self, label: int, score: float) -> list[int]:
        """Return the boxes that could suppress one with this label and score."""
        return [
            i
            for i, (kind, value) in enumerate(zip(self.labels, self.scores, strict=True))
            if kind == label and value >= score - SCORE_TOLERANCE
        ]


def _decided_by_a_bit(index: int, side: _Side, other: _Side, others_own: set[int]) -> bool:
    """Whether the run without a box computed nearly the same as the run with it.

    It may also have a better box of its own instead, which is looked at by itself.
    """
    score, label = side.scores[index], side.labels[index]
    if score <= SCORE + SCORE_TOLERANCE:
        return True
    if len(other.scores) == MOST and score <= other.scores[-1] + SCORE_TOLERANCE:
        return True
    rivals = other.rivals(label, score)
    overlaps = _overlaps(side.boxes[index], other.boxes[rivals])
    return any(
        abs(overlap - IOU) <= OVERLAP_TOLERANCE
        or (overlap > IOU and rival in others_own and other.scores[rival] > score)
        for rival, overlap in zip(rivals, overlaps, strict=True)
    )


def _compare_boxes(name: str, ours: Record, theirs: Record, result: Agreement) -> None:
    first, second = _Side.of(ours), _Side.of(theirs)
    free = set(range(len(second.boxes)))
    lost = set()
    for i, (box, label) in enumerate(zip(first.boxes, first.labels, strict=True)):
        candidates = [j for j in free if second.labels[j] == label]
        distances = [float(abs(second.boxes[j] - box).max()) for j in candidates]
        if not any(distance <= BOX_TOLERANCE for distance in distances):
            lost.add(i)
            continue
        j = candidates[int(np.nanargmin(distances))]
        free.remove(j)
        difference = abs(first.scores[i] - second.scores[j])
        if not difference <= SCORE_TOLERANCE:  # also true for NaN
            result.errors.append(f"{name}: box {i} has a score that differs by {difference:.2g}")
    for side, own, other, others_own in ((first, lost, second, free), (second, free, first, lost)):
        for index in sorted(own):
            if _decided_by_a_bit(index, side, other, others_own):
                result.ties += 1
                continue
            score = side.scores[index]
            result.errors.append(f"{name}: a box with a score of {score:.4f} is in one run only")


def _compare_classes(name: str, ours: Record, theirs: Record, result: Agreement) -> None:
    if len(ours["scores"]) != len(theirs["scores"]):
        result.errors.append(f"{name}: {len(ours['scores'])} and {len(theirs['scores'])} classes")
        return
    differences = abs(np.array(ours["scores"]) - np.array(theirs["scores"]))
    if not differences.max() <= SCORE_TOLERANCE:
        result.errors.append(f"{name}: scores differ by {differences.max():.2g}")
    elif ours["labels"] != theirs["labels"]:
        # The same scores at the same ranks but other labels: the labels' scores are tied.
        changed = [a != b for a, b in zip(ours["labels"], theirs["labels"], strict=True)]
        result.ties += sum(changed)
        scores = np.array(ours["scores"])
        for rank in np.nonzero(changed)[0]:
            label = theirs["labels"][rank]
            position = ours["labels"].index(label) if label in ours["labels"] else len(scores) - 1
            if abs(scores[position] - scores[rank]) > 2 * SCORE_TOLERANCE:
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
