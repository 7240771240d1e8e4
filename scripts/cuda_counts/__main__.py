"""What binds the CUDA kernels of the GPU's benchmarks, by count: writes docs/cuda_counts.md.

    make ptx-counts

The PTX that nvcc makes of the kernels is interpreted (tests/ptx). What they execute and ask of
memory is scaled up to the row, and a kernel's time is the longest of five by an H200's rates: what
it takes at best.
"""

import argparse
import ctypes
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cuda_counts.rows import Row, rows
from kernels import find_cuobjdump, use_slot
from ptx.report import Kernel, Kernels, add_statistics, readable
from torch.utils import _pytree as pytree
from visops._loader import LIBRARY

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "cuda_counts.md"
TIMED = ROOT / "docs" / "benchmarks" / "gpu_nvidia_h200.json"
SHIPPED = ROOT / "ops" / "lib" / "libvisops_cuda.so"

CLOCK = 1.9e9
MULTIPROCESSORS, SCHEDULERS = 132, 4  # a scheduler issues an instruction of a warp a clock
BYTES_A_SECOND = 4.0e12  # what copies reach
NEXT = 4  # clocks from an instruction of a warp to the next one that needs its result
LEAST = 2e-6  # seconds of a kernel that does nothing, behind another one
GLOBAL = ("load global", "store global", "atomic")
SHARED = ("load shared", "store shared")

HEAD = """| row | copy, µs | timed, µs | counted, µs | slowest kernel, its share | bound by | \
instructions an output | lines a request | registers | shared bytes | launches |
|-|-|-|-|-|-|-|-|-|-|-|"""


@dataclass
class Cost:
    """What a kernel of a row takes at best, and why."""

    mangled: str
    kernel: Kernel
    seconds: float
    bound: str


def cost(mangled: str, kernel: Kernel, times: float) -> Cost:
    at_large = kernel.total(*GLOBAL)
    warps = kernel.threads * times / kernel.launches / 32
    # A multiprocessor takes a request, or four lines, or 128 bytes a clock.
    passes = at_large.issues + kernel.total(*SHARED).units
    requests = max(passes, at_large.lines / 4, at_large.units / 4)
    issued = kernel.total().issues * times
    seconds = {
        "instructions": issued / (min(MULTIPROCESSORS * SCHEDULERS, warps) * CLOCK),
        "requests": requests * times / (min(MULTIPROCESSORS, warps) * CLOCK),
        "bytes": kernel.touched * times / BYTES_A_SECOND,
        "one warp": kernel.longest * NEXT / CLOCK,
        "launches": kernel.launches * LEAST,
    }
    bound = max(seconds, key=lambda key: seconds[key])
    return Cost(mangled, kernel, seconds[bound], bound)


def take_statistics() -> dict[str, Kernel]:
    """Return what kernels have done since the last call, by their mangled names."""
    library = ctypes.CDLL(str(LIBRARY))
    if not hasattr(library, "visops_ptx_take_statistics"):
        raise SystemExit(f"{LIBRARY} was not built with VISOPS_PTX=1")
    library.visops_ptx_take_statistics.restype = ctypes.c_char_p
    kernels: Kernels = {}
    add_statistics(kernels, library.visops_ptx_take_statistics().decode().splitlines())
    return {name: kernel for (_, name), kernel in kernels.items()}


def measured(row: Row) -> tuple[list[Cost], int]:
    """Run a call, whose bits must be the CPU's; return its kernels and its count of numbers."""
    torch.manual_seed(0)
    expected = pytree.tree_leaves(row.call())
    take_statistics()
    torch.manual_seed(0)
    with use_slot("cuda_emulated"):
        found = pytree.tree_leaves(row.call())
    for ours, wanted in zip(found, expected, strict=True):
        near = 0.0 if row.exact else 1e-3
        torch.testing.assert_close(ours, wanted, rtol=near, atol=near, equal_nan=True)
    costs = [cost(name, kernel, row.times) for name, kernel in take_statistics().items()]
    return sorted(costs, key=lambda c: -c.seconds), sum(leaf.numel() for leaf in found)


def registers() -> dict[str, tuple[int, int]]:
    """Return how many registers a kernel's threads take, and bytes of shared memory its blocks."""
    usage = r"Function (\S+):\n.*?REG:(\d+).*?SHARED:(\d+)"
    command = [find_cuobjdump(), "--dump-resource-usage", str(SHIPPED)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {readable(name): (int(r), int(s)) for name, r, s in re.findall(usage, text)}


def short(name: str) -> str:
    """Return a kernel's name without where it is, what it returns and its types."""
    plain = name.replace("(anonymous namespace)::", "").removeprefix("void ")
    return re.sub(r"[<(].*", "", plain).removeprefix("visops::")


def line(row: Row, taken: dict[str, tuple[int, int]], cells: list[dict[str, Any]]) -> str:
    """Return a line of the table."""
    costs, numbers = measured(row)
    slowest, seconds = costs[0], sum(c.seconds for c in costs)
    at_large = slowest.kernel.total(*GLOBAL)
    issued = sum(c.kernel.total().issues for c in costs)
    copy = next(cell["min_s"] for cell in cells if cell.get("bound"))
    words = [
        row.label,
        *(f"{1e6 * t:.0f}" for t in (copy, cells[0]["min_s"], seconds)),
        f"`{short(slowest.kernel.name)}`, {100 * slowest.seconds / seconds:.0f} %",
        slowest.bound,
        f"{32 * issued / numbers:.0f}",
        f"{at_large.lines / max(1, at_large.issues):.1f}",
        *map(str, taken.get(slowest.mangled, ("", ""))),
        str(sum(c.kernel.launches for c in costs)),
    ]
    return f"| {' | '.join(words)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="print rows whose label holds this; write none")
    only = parser.parse_args().only
    torch.set_num_threads(1)
    timed = {row["label"]: row["cells"] for row in json.loads(TIMED.read_text())["rows"]}
    taken, table = registers(), [HEAD]
    for row in rows():
        if only in row.label:
            table.append(line(row, taken, timed[row.label]))
            print(table[-1], flush=True)
    if not only:
        text = PAGE.read_text()
        PAGE.write_text(text[: text.index("| row |")] + "\n".join(table) + "\n")


if __name__ == "__main__":
    main()
