"""What the kernels of matching costs compute: run once per backend and compared."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch

from deformable.match_cases import KINDS, problem

COUNTS = ((3, 0, 7), (140, 1), (1,) * 70, (33,))
GAMMAS = (2.0, 1.5, 0.0)


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and costs for both types and kinds; sizes rotate."""
    combinations = itertools.product((torch.float32, torch.float64), KINDS, range(8))
    for seed, (dtype, kind, turn) in enumerate(combinations):
        counts, gamma = COUNTS[turn % 4], GAMMAS[turn % 3]
        made = problem(dtype, counts=counts, classes=(1, 5, 91, 40)[turn % 4], seed=seed)
        made.logits[:, ::5] *= 40  # where exp underflows
        made.boxes[:, ::4, 2:] = 0
        moved = made._replace(logits=made.logits.to(device), boxes=made.boxes.to(device))
        moved = moved._replace(labels=[t.to(device) for t in made.labels])
        moved = moved._replace(targets=[t.to(device) for t in made.targets])
        costs = moved.costs(kind, gamma=gamma)
        yield f"{dtype}-{kind}-{turn}", torch.cat([c.flatten() for c in costs]).cpu().numpy()


def check(found: dict[str, np.ndarray]) -> None:
    """Check that there are many cases, all of them finite."""
    assert len(found) == 2 * 2 * 8
    assert all(np.isfinite(v).all() and len(np.unique(v)) > 30 for v in found.values())
