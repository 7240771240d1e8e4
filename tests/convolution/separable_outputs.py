"""Every output of the separable filters' kernels, to compare between backends."""

from collections.abc import Iterator

import numpy as np
import torch
from visops.convolution.filter_separable import DTYPES, filter_separable

# height, width, taps of a row, taps of a column
PROBLEMS = [
    (1, 1, 1, 1),
    (1, 9, 5, 3),
    (7, 2, 33, 33),
    (33, 65, 9, 5),
    (70, 130, 2, 4),
    (40, 64, 1, 23),
    (64, 40, 33, 1),
]


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and values, with weights for all images and for each."""
    rng = np.random.default_rng(0)
    for dtype in DTYPES:
        for height, width, row, column in PROBLEMS:
            values = rng.uniform(0, 255, (3, 2, height, width))
            images = torch.from_numpy(values).to(dtype).to(device)
            rows = rng.uniform(-0.2, 0.5, (3, row))
            columns = rng.uniform(-0.2, 0.5, (3, column))
            rows[1] = np.arange(row) == row // 2
            columns[1] = np.arange(column) == column // 2
            name = f"{height}x{width}-{row}x{column}-{dtype}"
            own = filter_separable(images, rows.ravel().tolist(), columns.ravel().tolist(), False)
            one = filter_separable(images, rows[0].tolist(), columns[0].tolist())
            found_by = [("own", own), ("one", one)]
            if row % 2 and column % 2:
                weights = rows.ravel().tolist(), columns.ravel().tolist()
                found_by.append(("pairs", filter_separable(images, *weights, False, True)))
            for kind, found in found_by:
                yield f"{kind}-{name}", found.float().cpu().numpy()


def check(found: dict[str, np.ndarray]) -> None:
    """Check that there are many cases, and that few of them are constant."""
    assert len(found) == (3 * len(PROBLEMS) - 1) * len(DTYPES)
    assert np.mean([np.unique(v).size > 2 for v in found.values()]) > 0.7
