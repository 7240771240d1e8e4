"""Problems of deformable attention that its tests share, and its form by grid_sample."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import visops
from references import deformable_attention as reference
from torch import Tensor
from torch.nn import functional

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
METHODS = ("default", "discrete")
SHAPES = ((7, 9), (4, 5), (1, 3), (3, 1))

# Around a result's last place, of the largest magnitude.
TOLERANCES = {torch.float64: 1e-13, torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


@dataclass
class Problem:
    """Arguments: `points` are the numbers of samples per level."""

    value: Tensor
    shapes: tuple[tuple[int, int], ...]
    locations: Tensor
    weights: Tensor
    points: tuple[int, ...]

    def attend(self, method: Any = "default", **options: Any) -> Tensor:
        found: Tensor = visops.multi_scale_deformable_attention(
            self.value,
            self.shapes,
            self.locations,
            self.weights,
            method=method,
            num_points_list=self.points,
            **options,
        )
        return found

    @property
    def leaves(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.value, self.locations, self.weights

    def with_gradients(self) -> "Problem":
        for leaf in self.leaves:
            leaf.requires_grad_()
        return self

    def arguments(self) -> tuple[Any, ...]:
        """As the dispatcher's operators take them."""
        sizes = [side for pair in self.shapes for side in pair]
        return self.value, None, sizes, self.locations, self.weights, list(self.points)

    def expected(self, method: str = "default") -> np.ndarray:
        value, locations, weights = (to_numpy(leaf) for leaf in self.leaves)
        return reference.attend(
            value, self.shapes, locations, weights, points=self.points, method=method
        )


def to_numpy(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


def problem(
    dtype: torch.dtype = torch.float32,
    *,
    batch: int = 2,
    queries: int = 5,
    heads: int = 3,
    channels: int = 8,
    shapes: Sequence[tuple[int, int]] = SHAPES,
    points: Sequence[int] | int = 2,
    samples_dtype: torch.dtype | None = None,
    seed: int = 0,
    on_pixels: bool = True,
) -> Problem:
    """Locations in and around the maps; some far outside, some on pixel centres and on borders.

    Pixel centres are where "discrete" rounds up or down, which depends on float32's rounding.
    """
    rng = np.random.default_rng(seed)
    counts = (points,) * len(shapes) if isinstance(points, int) else tuple(points)
    samples = sum(counts)
    positions = sum(h * w for h, w in shapes)
    value = rng.uniform(-1, 1, (batch, positions, heads, channels))
    locations = rng.uniform(-0.2, 1.2, (batch, queries, heads, samples, 2))
    kind = rng.integers(0, 10, locations.shape[:-1])
    sizes = np.repeat([(w, h) for h, w in shapes], counts, axis=0)
    centres = (np.floor(locations * sizes) + 0.5) / np.maximum(sizes, 1)
    locations = np.where((on_pixels & (kind == 0))[..., None], centres, locations)
    locations = np.where((kind == 1)[..., None], locations * 40 - 20, locations)
    locations = np.where((kind == 2)[..., None], np.rint(locations), locations)
    weights = rng.uniform(0, 1, (batch, queries, heads, samples))
    weights /= weights.sum(-1, keepdims=True)
    of_samples = samples_dtype or dtype
    return Problem(
        torch.from_numpy(value).to(dtype),
        tuple(shapes),
        torch.from_numpy(locations).to(of_samples),
        torch.from_numpy(weights).to(of_samples),
        counts,
    )


def smooth_problem(seed: int = 0, **options: Any) -> Problem:
    """float64, with samples that keep their distance from pixels and borders, where slopes jump."""
    made = problem(torch.float64, seed=seed, **options)
    rng = np.random.default_rng(seed)
    sizes = np.repeat([(w, h) for h, w in made.shapes], made.points, axis=0)
    whole = np.floor(rng.uniform(-1.5, 1.5 + sizes, made.locations.shape))
    positions = (whole + rng.uniform(0.1, 0.9, whole.shape) + 0.5) / sizes
    made.locations = torch.from_numpy(positions)
    return made


def assert_near(found: Tensor, wanted: np.ndarray | Tensor, dtype: torch.dtype) -> None:
    """Within the rounding of `dtype`."""
    other = to_numpy(wanted) if isinstance(wanted, Tensor) else wanted
    assert found.shape == other.shape
    bound = TOLERANCES[dtype] * max(1.0, float(np.abs(other).max(initial=0)))
    np.testing.assert_allclose(to_numpy(found), other, rtol=0, atol=bound)


def by_grid_sample(
    value: Tensor, shapes: Sequence[tuple[int, int]], locations: Tensor, weights: Tensor
) -> Tensor:
    """The form that runs everywhere: locations [B, Q, h, L, P, 2], weights [B, Q, h, L, P]."""
    batch, _, heads, channels = value.shape
    queries, points = locations.shape[1], locations.shape[4]
    maps = value.permute(0, 2, 3, 1).flatten(0, 1)  # [B h, d, S]
    grids = (2 * locations - 1).transpose(1, 2).flatten(0, 1)  # [B h, Q, L, P, 2]
    parts = maps.split([h * w for h, w in shapes], dim=2)
    samples = [
        functional.grid_sample(
            part.unflatten(2, shape), grids[:, :, level], padding_mode="zeros", align_corners=False
        )
        for level, (part, shape) in enumerate(zip(parts, shapes, strict=True))
    ]  # [B h, d, Q, P] for each level
    factors = weights.transpose(1, 2).reshape(batch * heads, 1, queries, len(shapes) * points)
    summed = (torch.cat(samples, 3) * factors).sum(3)  # [B h, d, Q]
    return summed.view(batch, heads * channels, queries).transpose(1, 2)
