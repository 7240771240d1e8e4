"""Bad input to matching costs: each row is an input and the message it must give."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import visops
from bad_input import check
from kernels import use_slot

LOGITS, BOXES = torch.zeros(2, 3, 4), torch.zeros(2, 3, 4)
LABELS, TARGETS = torch.zeros(5, dtype=torch.int64), torch.zeros(5, 4)


def match(
    logits: Any = LOGITS,
    boxes: Any = BOXES,
    labels: Any = LABELS,
    targets: Any = TARGETS,
    **options: Any,
) -> Callable[[], Any]:
    made = {"weights": (2, 5, 2), "counts": [2, 3], **options}
    return lambda: visops.match_cost(logits, boxes, labels, targets, **made)


@pytest.mark.parametrize("label", [-1, 4, 2**40])
def test_labels(label: int) -> None:
    """An error where the host has them; NaN where only the kernel reads them."""
    labels = LABELS.clone()
    labels[3] = label
    message = f"match_cost: target_labels[3] is {label}, logits has 4 classes"
    with use_slot("default"):
        check(RuntimeError, message, match(labels=labels))
    with use_slot("cuda_emulated"):
        for kind in ("focal", "softmax"):
            found = match(labels=labels, kind=kind)()
            assert found[1][:, 1].isnan().all()
            assert not found[1][:, ::2].isnan().any()
            assert not found[0].isnan().any()
