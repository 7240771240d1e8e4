"""The demo of the warp: photos, each with its own random matrix, and other libraries."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import torch
import visops
from bench.harness import compare, interleave, set_threads
from tqdm import tqdm

from demo.photos import Photo

SHOWN = 6  # columns of the preview


@dataclass(frozen=True)
class Warp:
    """One random warp about the centre, in torchvision's terms."""

    angle: float  # degrees, clockwise
    translate: tuple[float, float]  # pixels
    scale: float

    def matrix(self, size: int) -> torch.Tensor:
        """Source -> destination, integer pixel centres, float64 [2, 3]."""
        centre = ((size - 1) / 2, (size - 1) / 2)
        matrix: torch.Tensor = visops.get_affine_matrix(
            centre, self.angle, self.translate, self.scale
        )
        return matrix


def draw_warps(count: int, size: int, seed: int) -> list[Warp]:
    """Random rotation, scale and translation for each image."""
    rng = np.random.default_rng(seed)
    reach = 0.12 * size
    return [
        Warp(
            angle=float(rng.uniform(-35, 35)),
            translate=(float(rng.uniform(-reach, reach)), float(rng.uniform(-reach, reach))),
            scale=float(rng.uniform(0.75, 1.15)),
        )
        for _ in range(count)
    ]


@dataclass
class Runner:
    """One library doing the whole job; `as_tensor` makes the result uint8 [B, 3, H, W]."""

    name: str
    how: str
    call: Callable[[], Any]
    as_tensor: Callable[[Any], torch.Tensor]


def _hwc(images: list[Photo]) -> torch.Tensor:
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)


def _optional(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def make_runners(photos: list[Photo], warps: list[Warp]) -> tuple[list[Runner], list[str]]:
    """Every library that is installed, and the names of those that are not.

    All start from uint8 photos and end with uint8 photos, in the layout they like best.
    """
    size = photos[0].shape[0]
    matrices = torch.stack([warp.matrix(size) for warp in warps])
    arrays = [matrix.numpy() for matrix in matrices]
    batch = _hwc(photos).contiguous()
    runners = [
        Runner(
            "visops, tensor",
            "one call, a matrix for each image",
            lambda: visops.warp_affine(batch, matrices),
            lambda out: out,
        ),
        Runner(
            "visops, NumPy",
            "a call for each image",
            lambda: [visops.warp_affine(p, m) for p, m in zip(photos, arrays, strict=True)],
            _hwc,
        ),
    ]
    missing = []

    cv2 = _optional("cv2")
    if cv2 is None:
        missing.append("OpenCV")
    else:
        runners.append(
            Runner(
                f"OpenCV {cv2.__version__}",
                "a call for each image",
                lambda: [
                    cv2.warpAffine(p, m, (size, size)) for p, m in zip(photos, arrays, strict=True)
                ],
                _hwc,
            )
        )

    torchvision = _optional("torchvision")
    functional = _optional("torchvision.transforms.v2.functional")
    if functional is None:
        missing.append("torchvision")
    else:
        singles = list(batch.split(1))
        bilinear = importlib.import_module("torchvision.transforms").InterpolationMode.BILINEAR

        def torchvision_affine() -> torch.Tensor:
            warped = [
                functional.affine(x, w.angle, list(w.translate), w.scale, [0.0, 0.0], bilinear)
                for x, w in zip(singles, warps, strict=True)
            ]
            return torch.cat(warped)

        runners.append(
            Runner(
                f"torchvision {torchvision.__version__.partition('+')[0]}",
                "a call for each image: one matrix per call",
                torchvision_affine,
                lambda out: out,
            )
        )

    kornia = _optional("kornia")
    if kornia is None:
        missing.append("kornia")
    else:
        matrices32 = matrices.float()

        def kornia_warp() -> torch.Tensor:
            warped = kornia.geometry.warp_affine(batch.float(), matrices32, (size, size))
            as_bytes: torch.Tensor = warped.round_().to(torch.uint8)
            return as_bytes

        runners.append(
            Runner(
                f"kornia {kornia.__version__}",
                "one call, through float32",
                kornia_warp,
                lambda out: out,
            )
        )
    return runners, missing


def gpu_runner(photos: list[Photo], warps: list[Warp]) -> Runner:
    """The tensor call on photos already on the GPU."""
    batch = _hwc(photos).contiguous().cuda()
    matrices = torch.stack([warp.matrix(photos[0].shape[0]) for warp in warps]).cuda()
    return Runner(
        f"visops, {torch.cuda.get_device_name()}",
        "one call, a matrix for each image",
        lambda: visops.warp_affine(batch, matrices),
        lambda out: out.cpu(),
    )


def save_preview(photos: list[Photo], warps: list[Warp], path: Path) -> None:
    """Draw originals, warped photos, and photos warped back: one column each."""
    count = min(SHOWN, len(photos))
    size = photos[0].shape[0]
    batch = _hwc(photos[:count])
    matrices = torch.stack([warp.matrix(size) for warp in warps[:count]])
    warped = visops.warp_affine(batch, matrices)
    back = visops.warp_affine(warped, visops.invert_affine(matrices))
    rows = (
        ("original", batch),
        ("warped", warped),
        ("warped back", back),
    )
    mpl.use("Agg")
    width, height = 2.0 * count + 0.42, 2.0 * len(rows) + 0.68  # inches
    figure, grid = plt.subplots(
        len(rows),
        count,
        figsize=(width, height),
        squeeze=False,
        gridspec_kw={
            "wspace": 0.04,
            "hspace": 0.04,
            "left": 0.36 / width,
            "right": 1 - 0.06 / width,
            "bottom": 0.06 / height,
            "top": 1 - 0.62 / height,
        },
    )
    for (title, images), line in zip(rows, grid, strict=True):
        for axes, image in zip(line, images, strict=True):
            axes.imshow(image.permute(1, 2, 0).numpy())
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set_visible(False)
        line[0].set_ylabel(title, fontsize=12)
    for axes, warp in zip(grid[0], warps, strict=False):
        dx, dy = warp.translate
        axes.set_title(
            f"{warp.angle:+.0f}°   ×{warp.scale:.2f}   {dx:+.0f}, {dy:+.0f} px".replace("-", "−"),
            fontsize=9,
            color="#444444",
            pad=4,
        )
    figure.suptitle(
        "visops.warp_affine: one call, a matrix for each image",
        y=1 - 0.06 / height,
        va="top",
        fontsize=13,
        fontweight="bold",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def measure(
    runners: list[Runner], count: int, threads: list[int], min_time: float
) -> dict[str, list[float]]:
    """Images per second of each runner, at each thread count."""
    rates: dict[str, list[float]] = {}
    for n in tqdm(threads, desc="timing", unit="pass", leave=False, disable=None):
        set_threads(n)
        timings = interleave([r.call for r in runners], min_time=min_time)
        for runner, timing in zip(runners, timings, strict=True):
            rates.setdefault(runner.name, []).append(count / timing.minimum)
    return rates


def difference_text(ours: torch.Tensor, runner: Runner) -> str:
    """How far a runner's result is from ours."""
    difference = compare(ours, runner.as_tensor(runner.call()))
    if not difference.max_abs:
        return "none"
    return f"{difference.max_abs:.0f} (on {difference.fraction:.2%} of values)"


def print_table(runners: list[Runner], rates: dict[str, list[float]], threads: list[int]) -> None:
    """Images per second, and the distance from the first runner's result."""
    ours = runners[0].as_tensor(runners[0].call())
    heads = [f"{n} thread{'s' if n > 1 else ''}" for n in threads]
    print(
        f"\n{'images/s (visops = 1)':<22}"
        + "".join(f"{head:>16}" for head in heads)
        + "   largest difference, of 255"
    )
    for runner in runners:
        pairs = zip(rates[runner.name], rates[runners[0].name], strict=True)
        cells = [f"{rate:>7,.0f} ({rate / first:.2f})" for rate, first in pairs]
        text = "" if runner is runners[0] else difference_text(ours, runner)
        print(
            f"{runner.name:<22}"
            + "".join(f"{cell:>16}" for cell in cells)
            + f"   {text:<28} {runner.how}"
        )
    cv2 = _optional("cv2")
    if cv2 is not None and int(cv2.__version__.partition(".")[0]) < 5:
        print(
            "\nOpenCV 4.x takes its weights from a table with steps of 1/32 pixel, which moves "
            "sharp edges\nby up to 8 levels; OpenCV 5 interpolates in float32, as visops does."
        )
    elif cv2 is not None:
        print(
            "\nOpenCV 5 interpolates in float32, as visops does, so only roundings differ, by one "
            "level.\n(OpenCV 4.x takes its weights from a table with steps of 1/32 pixel: up to 8 "
            "levels.)"
        )


def print_gpu(photos: list[Photo], warps: list[Warp], cpu: Runner, min_time: float) -> None:
    """Time the tensor call on photos already on the GPU, or say that there is none."""
    if not torch.cuda.is_available():
        print("No CUDA device: nothing was run on a GPU.")
        return
    gpu = gpu_runner(photos, warps)
    (timing,) = interleave([gpu.call], min_time=min_time, device="cuda")
    difference = difference_text(cpu.as_tensor(cpu.call()), gpu)
    print(
        f"{gpu.name}: {len(photos) / timing.minimum:,.0f} images/s, photos and matrices on the "
        f"device; difference from the CPU: {difference}"
    )


def run(
    photos: list[Photo], different: int, origin: str, seed: int, output: Path, min_time: float
) -> None:
    """Run this part of the demo on square photos of one size; some may be the same."""
    size = photos[0].shape[0]
    warps = draw_warps(len(photos), size, seed)
    print(
        f"{len(photos)} photos of {size}×{size}×3 uint8 ({different} different, from {origin}), "
        f"bilinear, zeros outside; kernels: {visops.build_info()['cpu']}"
    )
    save_preview(photos, warps, output)

    threads = sorted({1, torch.get_num_threads()})
    runners, missing = make_runners(photos, warps)
    rates = measure(runners, len(photos), threads, min_time)
    print_table(runners, rates, threads)
    if missing:
        print(f"Not installed, so not compared: {', '.join(missing)}.")
    print_gpu(photos, warps, runners[0], min_time)
    print(f"Preview: {output}")
