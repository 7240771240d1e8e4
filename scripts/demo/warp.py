"""The demo of the warp: photos, each with its own random matrix, and warped back."""

import time
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import torch
import visops

from demo.photos import Photo

SHOWN = 6  # columns of the preview


@dataclass(frozen=True)
class Warp:
    """One random warp about the centre."""

    angle: float  # degrees, clockwise
    translate: list[float]  # pixels
    scale: float

    def matrix(self, size: int) -> torch.Tensor:
        """Source -> destination, integer pixel centres, float64 [2, 3]."""
        centre = ((size - 1) / 2, (size - 1) / 2)
        matrix: torch.Tensor = visops.get_affine_matrix(
            centre, self.angle, self.translate, self.scale
        )
        return matrix


def draw_warps(count: int, size: int) -> list[Warp]:
    """Random rotation, scale and translation for each image."""
    rng = np.random.default_rng(0)
    angles = rng.uniform(-35, 35, count).tolist()
    shifts = rng.uniform(-0.12 * size, 0.12 * size, (count, 2)).tolist()
    scales = rng.uniform(0.75, 1.15, count).tolist()
    return [Warp(*drawn) for drawn in zip(angles, shifts, scales, strict=True)]


def save_preview(rows: dict[str, torch.Tensor], warps: list[Warp], path: Path) -> None:
    """A column for each photo, a row for each batch."""
    mpl.use("Agg")
    width, height = 2.0 * len(warps) + 0.42, 2.0 * len(rows) + 0.68  # inches
    margins = {
        **{"wspace": 0.04, "hspace": 0.04, "left": 0.36 / width, "right": 1 - 0.06 / width},
        **{"bottom": 0.06 / height, "top": 1 - 0.62 / height},
    }
    figure, grid = plt.subplots(
        len(rows), len(warps), figsize=(width, height), squeeze=False, gridspec_kw=margins
    )
    for (title, images), line in zip(rows.items(), grid, strict=True):
        for axes, image in zip(line, images, strict=False):
            axes.imshow(image.permute(1, 2, 0).numpy())
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(False)
        line[0].set_ylabel(title, fontsize=12)
    for axes, warp in zip(grid[0], warps, strict=True):
        dx, dy = warp.translate
        text = f"{warp.angle:+.0f}°   ×{warp.scale:.2f}   {dx:+.0f}, {dy:+.0f} px"
        axes.set_title(text.replace("-", "−"), fontsize=9, color="#444444", pad=4)
    head = "visops.warp_affine: one call, a matrix for each image"
    figure.suptitle(head, y=1 - 0.06 / height, va="top", fontsize=13, fontweight="bold")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def run(photos: list[Photo], origin: str, output: Path) -> None:
    """Warp square photos of one size, and warp them back."""
    size = photos[0].shape[0]
    warps = draw_warps(len(photos), size)
    matrices = torch.stack([warp.matrix(size) for warp in warps])
    batch = torch.from_numpy(np.stack(photos)).permute(0, 3, 1, 2).contiguous()
    best = float("inf")
    for _ in range(20):
        began = time.perf_counter()
        warped = visops.warp_affine(batch, matrices)
        best = min(best, time.perf_counter() - began)
    print(
        f"{len(photos)} photos of {size}×{size}×3 uint8, from {origin}, bilinear: "
        f"{best / len(photos) * 1e3:.2f} ms each, {torch.get_num_threads()} threads; "
        f"kernels: {visops.build_info()['cpu']}"
    )
    if torch.cuda.is_available():
        there = visops.warp_affine(batch.cuda(), matrices.cuda()).cpu()
        same = "the same bytes" if torch.equal(there, warped) else "OTHER bytes"
        print(f"{torch.cuda.get_device_name()}: {same}")
    back = visops.warp_affine(warped, visops.invert_affine(matrices))
    rows = {"original": batch, "warped": warped, "warped back": back}
    save_preview(rows, warps[:SHOWN], output)
    print(f"Preview: {output}")
