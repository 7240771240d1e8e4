"""What valid calls of point samples and matching costs look like; for problem.py."""

from collections.abc import Callable
from typing import Any

import torch


def _targets(p: Any) -> int:
    """Return how many targets all images have together."""
    return 3 * p.batch  # type: ignore[no-any-return]


_POINTS: dict[str, Callable[[Any], Any]] = {
    "input": lambda p: p.maps(p.batch, p.channels, p.height, p.width, dtype=p.floating),
    "input_size": lambda p: [p.batch, p.channels, p.height, p.width],
    "points": lambda p: p.draw.tensor((p.batch, p.count, 2), p.floating) * 1.5 - 0.25,
    "grad": lambda p: p.maps(p.batch, p.channels, p.count, dtype=p.floating),
    "mode": lambda p: p.draw.choice(("bilinear", "nearest")),
    "padding_mode": lambda p: p.draw.choice(("zeros", "border", "reflection")),
    "align_corners": lambda p: p.draw.choice((False, True)),
}
_MATCH: dict[str, Callable[[Any], Any]] = {
    "logits": lambda p: p.maps(p.batch, p.count, p.channels, dtype=p.floating),
    "boxes": lambda p: p.draw.tensor((p.batch, p.count, 4), p.floating),
    "target_labels": lambda p: torch.zeros(_targets(p), dtype=torch.int64),
    "target_boxes": lambda p: p.draw.tensor((_targets(p), 4), p.floating),
    "counts": lambda p: [3] * p.batch,
    "weights": lambda p: [2.0, 5.0, 2.0],
    "kind": lambda p: p.draw.choice(("focal", "softmax")),
    "alpha": lambda p: 0.25,
    "gamma": lambda p: p.draw.choice((2.0, 1.5)),
}
_UNCERTAIN: dict[str, Callable[[Any], Any]] = {
    "logits": lambda p: p.maps(p.batch, 1, p.height, p.width, dtype=p.floating),
    "num_points": lambda p: p.count,
    "oversample_ratio": lambda p: 3.0,
    "importance_sample_ratio": lambda p: 0.75,
    "uncertainty": lambda p: "logit",
    "generator": lambda p: None,
}
BY_OPERATOR = {
    f"point_sample{part}.{name}": value
    for part in ("", "_backward_input", "_backward_points")
    for name, value in _POINTS.items()
} | {f"match_cost.{name}": value for name, value in _MATCH.items()}
BY_FUNCTION = {f"sample_points_by_uncertainty.{name}": value for name, value in _UNCERTAIN.items()}
