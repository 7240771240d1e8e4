"""Runs of masks and masks of runs, to compare between kernels."""

from collections.abc import Iterator

import numpy as np
import torch
import visops

from masks.mask_cases import KINDS, SIZES

OPS = torch.ops.visops


def outputs(device: str = "cpu") -> Iterator[tuple[str, np.ndarray]]:
    """Names and results of every kind of masks, and of runs that are none."""
    rng = np.random.default_rng(0)
    for height, width in (*SIZES, (70, 300), (130, 64), (200, 3)):
        arrays = np.stack([make(rng, height, width) for make in KINDS.values()])
        masks = torch.from_numpy(arrays).to(device)
        bits = visops.pack_masks(masks).bits
        name = f"{height}x{width}"
        for form, runs in (
            ("pixels", OPS.masks_to_runs(masks)),
            ("bits", OPS.masks_to_runs(bits, width)),
            ("all bits", OPS.masks_to_runs(~bits, width)),  # past the width, too
        ):
            for part, values in zip(("ends", "offsets"), runs, strict=True):
                yield f"{part}-{form}-{name}", values.cpu().numpy()
        found = OPS.runs_to_bits(*OPS.masks_to_runs(masks), [height, width])
        yield f"decoded-{name}", found.cpu().numpy()
        wild = rng.integers(-9, height * width + 9, 60).astype(np.int32)
        ends = torch.from_numpy(wild).to(device)
        offsets = torch.tensor([0, 0, 1, 20, 47, 60], device=device)
        yield f"wild-{name}", OPS.runs_to_bits(ends, offsets, [height, width]).cpu().numpy()


def check(found: dict[str, np.ndarray]) -> None:
    """Masks of runs are the masks, and most have several runs."""
    assert len(found) > 90
    lengths = [np.diff(a) for name, a in found.items() if name.startswith("offsets-pixels")]
    assert np.mean(np.concatenate(lengths) > 2) > 0.5
