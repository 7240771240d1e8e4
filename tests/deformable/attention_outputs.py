"""What the kernels of deformable attention compute: run once per backend and compared."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from deformable.attention_cases import FLOATING, METHODS, problem

CHANNELS = (32, 1, 8, 20, 64, 37, 16, 100)
POINTS: tuple[int | tuple[int, ...], ...] = (2, (3, 0, 1, 4), 4, (1, 70, 0, 2))
BATCHES = (1, 2, 3)


def bytes_of(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().contiguous().view(torch.uint8).numpy()


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and bytes for every dtype and method; the rest rotates."""
    combinations = list(itertools.product(FLOATING, METHODS, range(4)))
    sizes = zip(itertools.cycle(CHANNELS), itertools.cycle(POINTS), itertools.cycle(BATCHES))
    for seed, ((dtype, method, _), turn) in enumerate(zip(combinations, sizes, strict=False)):
        channels, points, batch = turn
        one_pixel = seed % 4 == 3  # hundreds of samples, added in order
        samples_dtype = torch.float32 if seed % 2 and dtype != torch.float64 else dtype
        given = problem(
            dtype,
            channels=channels,
            points=points,
            batch=batch,
            queries=10 if one_pixel else 40,
            samples_dtype=samples_dtype,
            seed=seed,
        )
        given.value, given.locations, given.weights = (t.to(device) for t in given.leaves)
        if one_pixel:
            given.locations = given.locations * 0 + 0.4
        found = given.with_gradients().attend(method)
        name = f"{dtype}-{method}-{channels}-{points}-{batch}"
        yield name, bytes_of(found)
        rng = np.random.default_rng(seed)
        grad = torch.from_numpy(rng.uniform(-1, 1, tuple(found.shape))).to(device, dtype)
        grads = torch.autograd.grad(found, given.leaves, grad, allow_unused=True)
        for part, gradient in zip(("value", "locations", "weights"), grads, strict=True):
            if gradient is not None:
                yield f"{name}-{part}", bytes_of(gradient)


def check(found: dict[str, np.ndarray]) -> None:
    """Check that there are many cases, none of them blank."""
    assert len(found) == 32 + 3 * 16 + 2 * 16
    assert all(len(np.unique(v)) > 1 for v in found.values())
