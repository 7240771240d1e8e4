"""Measure what methods of convolution cost on this machine: the numbers behind method="auto".

    python scripts/measure_convolve2d_costs.py [--write]

Prints ops/convolution/convolve2d_measured.py, or writes it; run `ruff format` on the result. Times
are of one thread's own CPU clock, the least of several calls, so other processes hardly matter. The
model and its numbers are explained in ops/convolution/convolve2d_costs.py.
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor
from visops.convolution import convolve2d_costs as costs
from visops.convolution.convolve2d_fft import convolve_fft
from visops.convolution.convolve2d_methods import convolve_direct, convolve_im2col
from visops.convolution.convolve2d_problem import Problem, problem
from visops.convolution.convolve2d_separable import convolve_separable, factors_of

OUTPUT = Path(__file__).resolve().parent.parent / "ops/convolution/convolve2d_measured.py"
DTYPES = [
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
]
SIZES = [(64, 64), (300, 400), (1080, 1920)]
SQUARES = [(k, k) for k in (3, 5, 7, 9, 11, 15, 21, 25, 33, 51)]
LINES = [(1, k) for k in (3, 7, 15, 25, 51)] + [(k, 1) for k in (3, 7, 15, 25, 51)]
# Even, and products of 2, 3 and 5, which transforms are fast for.
TILES = [16, 20, 24, 32, 40, 48, 64, 80, 96, 100, 120, 128, 144, 160, 180, 192, 200, 216, 240, 250]
TILES += [256, 270, 288, 300, 320, 360, 384, 400, 432, 480, 512, 600, 768, 1024]


def seconds(call: Callable[[], Any], repeats: int = 7) -> float:
    """Return the least of the times of `call`, each of 1 ms or more."""
    call()
    start = time.thread_time()
    call()
    count = max(1, min(100, int(1e-3 / max(1e-6, time.thread_time() - start))))
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        for _ in range(count):
            call()
        best = min(best, (time.thread_time() - start) / count)
    return best


def example(size: tuple[int, int], kernel: tuple[int, int], dtype: torch.dtype) -> Problem:
    """Return a convolution of mode "same" with a kernel that is a column times a row."""
    image = (torch.rand(size) * 9).to(dtype)
    column, row = torch.arange(1, kernel[0] + 1), torch.arange(1, kernel[1] + 1)
    in2 = torch.outer(column % 4 + 1, row % 3 + 1).to(dtype)
    return problem("convolve2d", image, in2, "same", "fill", 0, flip=True)[0]


def fitted(rows: list[list[float]], times: list[float]) -> list[float]:
    """Return coefficients >= 0 in nanoseconds whose relative errors are least."""
    weights = 1 / np.asarray(times)
    found, _ = nnls(np.asarray(rows) * weights[:, None], np.ones(len(times)))
    return [float(f"{x * 1e9:.4g}") for x in found]


def direct_numbers(dtype: torch.dtype) -> list[float]:
    rows, times = [], []
    for size in SIZES:
        for kernel in SQUARES + LINES:
            if kernel[0] * kernel[1] * size[0] * size[1] < 2e9:
                p = example(size, kernel, dtype)
                rows.append(costs.direct_terms(size[0] * size[1], kernel))
                times.append(seconds(partial(convolve_direct, p)))
    return fitted(rows, times)


def im2col_numbers(dtype: torch.dtype) -> list[float]:
    rows, times = [], []
    for size in SIZES[:2]:
        for k in (3, 5, 9, 15):
            for kernels in (1, 16):
                p = example(size, (k, k), dtype)
                p = p._replace(kernel=p.kernel.expand(kernels, k, k))
                rows.append(costs.im2col_terms((1, kernels), size[0] * size[1], (k, k)))
                times.append(seconds(partial(convolve_im2col, p), 3))
    return fitted(rows, times)


def separable_overhead(dtype: torch.dtype) -> float:
    """Return what a call costs beside two convolutions with lines, and finding the lines."""
    p = example((16, 16), (5, 5), dtype)
    lines = 0.0
    for kernel in ((1, 5), (5, 1)):
        lines += seconds(partial(convolve_direct, example((16, 16), kernel, dtype)))
    whole = seconds(lambda: convolve_separable(p, _factors(p.kernel)))
    return float(f"{max(0.0, whole - lines) * 1e9:.4g}")


def _factors(kernel: Tensor) -> tuple[Tensor, Tensor]:
    factors = factors_of(kernel)
    assert factors is not None
    return factors


def fft_numbers(dtype: torch.dtype) -> tuple[float, dict[int, float]]:
    """Return nanoseconds a call, and an element of tiles of each size."""
    small = example((4, 4), (3, 3), dtype)
    call = seconds(lambda: convolve_fft(small, (16, 16))) * 1e9
    by_tile = {}
    for tile in TILES:
        k = tile // 4 + 1
        count = max(1, round(1000 / (tile - k + 1)))
        side = count * (tile - k + 1)
        p = example((side, side), (k, k), dtype)
        elements = count * count * tile * tile
        taken = seconds(partial(convolve_fft, p, (tile, tile)), 4) * 1e9
        by_tile[tile] = float(f"{max(0.0, taken - call) / elements:.4g}")
    return float(f"{call:.4g}"), by_tile


def crossover(dtype: torch.dtype, direct: list[float], fft: Any) -> int:
    """Return elements of a kernel from which on transforms are faster, for large images."""
    for k in range(3, 200):
        n = 1 << 21
        side = (1024, 2048)
        by_sums = float(np.dot(costs.direct_terms(n, (k, k)), direct))
        if costs.fft_cost(fft, (1, 1, 1), side, (k, k))[0] < by_sums:
            return k * k
    return 1 << 62


def measured(dtype: torch.dtype) -> str:
    """Return this dtype's entry in the table."""
    direct = direct_numbers(dtype)
    im2col = im2col_numbers(dtype)
    separable = separable_overhead(dtype)
    name = str(dtype).removeprefix("torch.")
    text = f'    "{name}": {{\n'
    text += f'        "direct": {tuple(direct)},\n'
    text += f'        "im2col": {tuple(im2col)},\n'
    text += f'        "separable": {separable},\n'
    if dtype.is_floating_point or dtype.is_complex:
        call, tiles = fft_numbers(dtype)
        fft = costs.FftCosts(call, tiles)
        text += f'        "fft": ({call}, {tiles}),\n'
        text += f'        "crossover": {crossover(dtype, direct, fft)},\n'
    return text + "    },\n"


HEADER = '''"""Measured costs of convolutions; made by scripts/measure_convolve2d_costs.py.

Nanoseconds on one thread. convolve2d_costs.py says what they multiply.
"""

from typing import Any

MEASURED: dict[str, dict[str, Any]] = {
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="one dtype, for a look")
    parser.add_argument("--write", action="store_true", help=f"write {OUTPUT.name}")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    text = HEADER
    for dtype in DTYPES:
        if arguments.only and arguments.only not in str(dtype):
            continue
        text += measured(dtype)
        print(dtype, file=sys.stderr, flush=True)
    text += "}\n"
    if arguments.write:
        OUTPUT.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
