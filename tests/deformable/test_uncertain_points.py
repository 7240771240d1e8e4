"""Points drawn where a prediction is uncertain, against PointRend's steps written out."""

from typing import Any

import pytest
import torch
import visops
from bad_input import check
from torch import Tensor
from torch.nn import functional


def by_steps(
    logits: Tensor,
    count: int,
    oversample: float,
    importance: float,
    uncertainty: str,
    generator: torch.Generator,
) -> Tensor:
    """Draw, sample by grid_sample, choose, draw the rest: one image at a time."""
    tried = int(count * oversample)
    points = torch.rand(len(logits), tried, 2, generator=generator, dtype=logits.dtype)
    chosen = []
    for image, own in zip(logits, points, strict=True):
        values = functional.grid_sample(
            image[None], 2 * own[None, :, None] - 1, align_corners=False
        )[0, :, :, 0]
        if uncertainty == "logit":
            doubt = -values[0].abs()
        else:
            ordered = values.sort(0, descending=True).values
            doubt = ordered[1] - ordered[0]
        rank = sorted(range(tried), key=lambda i: (-float(doubt[i]), i))
        chosen.append(own[rank[: int(importance * count)]])
    rest = count - int(importance * count)
    made = torch.rand(len(logits), rest, 2, generator=generator, dtype=logits.dtype)
    return torch.cat([torch.stack(chosen), made], 1)


def smooth_logits(channels: int, batch: int = 3) -> Tensor:
    torch.manual_seed(0)
    small = torch.randn(batch, channels, 5, 6, dtype=torch.float64)
    return functional.interpolate(small, size=(20, 24), mode="bilinear")


@pytest.mark.parametrize(
    ("count", "oversample", "importance"),
    [(50, 3, 0.75), (7, 1, 1.0), (13, 2.5, 0.0), (1, 4, 0.5), (0, 3, 0.75)],
)
@pytest.mark.parametrize("uncertainty", ["logit", "margin"])
def test_same_points(count: int, oversample: float, importance: float, uncertainty: str) -> None:
    """In float64, where no two uncertainties are equal up to rounding."""
    logits = smooth_logits(1 if uncertainty == "logit" else 4)
    generators = [torch.Generator().manual_seed(7) for _ in range(2)]
    found = visops.sample_points_by_uncertainty(
        logits,
        count,
        oversample_ratio=oversample,
        importance_sample_ratio=importance,
        uncertainty=uncertainty,
        generator=generators[0],
    )
    wanted = by_steps(logits, count, oversample, importance, uncertainty, generators[1])
    assert torch.equal(found, wanted)
    # As much was drawn, so what follows is the same too.
    assert torch.equal(*(torch.rand(3, generator=generator) for generator in generators))


def test_float32_draws() -> None:
    """The default generator; the same set of points up to a few of equal uncertainty."""
    logits = smooth_logits(1).float()
    torch.manual_seed(3)
    found = visops.sample_points_by_uncertainty(logits, 200)
    torch.manual_seed(3)
    again = visops.sample_points_by_uncertainty(logits, 200)
    assert torch.equal(found, again)
    generator = torch.Generator().manual_seed(3)
    wanted = by_steps(logits, 200, 3, 0.75, "logit", generator)
    assert found.dtype == torch.float32
    assert (found != wanted).any(-1).sum() <= 4


def test_ties_and_nan() -> None:
    """NaN first, then equal values in the order in which they were drawn."""
    logits = torch.zeros(1, 1, 2, 2)
    generator = torch.Generator().manual_seed(0)
    found = visops.sample_points_by_uncertainty(
        logits, 10, importance_sample_ratio=1.0, generator=generator
    )
    drawn = torch.rand(1, 30, 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(found, drawn[:, :10])
    logits = torch.tensor([0.0, 0.0, float("nan"), 0.0]).view(1, 1, 1, 4)
    found = visops.sample_points_by_uncertainty(logits, 5, importance_sample_ratio=1.0)
    assert bool(visops.point_sample(logits, found).isnan().all())


def test_uncertain_edges() -> None:
    """Points gather at the edge of a mask; zeros outside the map make its borders uncertain too."""
    across = torch.linspace(-8, 8, 64).repeat(2, 1, 64, 1)
    found = visops.sample_points_by_uncertainty(across, 1000, importance_sample_ratio=1.0)
    assert found.shape == (2, 1000, 2)
    assert float(((found[..., 0] - 0.5).abs() < 0.2).float().mean()) > 0.95


def test_no_gradient_and_types() -> None:
    logits = smooth_logits(1).to(torch.bfloat16).requires_grad_()
    found = visops.sample_points_by_uncertainty(logits, 9)
    assert found.dtype == torch.float32
    assert not found.requires_grad


def test_compile() -> None:
    compiled = torch.compile(
        visops.sample_points_by_uncertainty, fullgraph=True, backend="aot_eager"
    )
    logits = smooth_logits(1)
    torch.manual_seed(1)
    found = compiled(logits, 12)
    torch.manual_seed(1)
    assert torch.equal(found, visops.sample_points_by_uncertainty(logits, 12))


LOGITS = torch.zeros(2, 1, 4, 5)


@pytest.mark.parametrize(
    ("error", "message", "arguments", "options"),
    [
        (TypeError, "logits is a list, must be a torch.Tensor", ([[0.0]], 3), {}),
        (RuntimeError, "logits has shape [1, 4, 5], must be [B, C, H, W]", (LOGITS[0], 3), {}),
        (
            RuntimeError,
            "logits has dtype int64, must be a floating type",
            (LOGITS.long(), 3),
            {},
        ),
        (TypeError, "num_points is 2.5, must be an integer", (LOGITS, 2.5), {}),
        (ValueError, "num_points is -1, must be >= 0", (LOGITS, -1), {}),
        (
            ValueError,
            "oversample_ratio is 0.5, must be finite and at least 1",
            (LOGITS, 3),
            {"oversample_ratio": 0.5},
        ),
        (
            ValueError,
            "num_points is 3, oversample_ratio 1e+308; their product must be below 2147483648",
            (LOGITS, 3),
            {"oversample_ratio": 1e308},
        ),
        (
            ValueError,
            "importance_sample_ratio is nan, must be from 0 to 1",
            (LOGITS, 3),
            {"importance_sample_ratio": float("nan")},
        ),
        (
            ValueError,
            "uncertainty is 'entropy', must be 'logit' or 'margin'",
            (LOGITS, 3),
            {"uncertainty": "entropy"},
        ),
        (
            RuntimeError,
            "logits has 2 channels, must have 1 for uncertainty 'logit'",
            (LOGITS.repeat(1, 2, 1, 1), 3),
            {},
        ),
        (
            RuntimeError,
            "logits has 1 channels, must have at least 2 for uncertainty 'margin'",
            (LOGITS, 3),
            {"uncertainty": "margin"},
        ),
    ],
)
def test_messages(error: Any, message: str, arguments: Any, options: Any) -> None:
    check(
        error,
        f"sample_points_by_uncertainty: {message}",
        lambda: visops.sample_points_by_uncertainty(*arguments, **options),
    )
