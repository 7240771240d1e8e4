"""Which CUDA kernels have run as PTX, and how much of their code.

    python tests/ptx/report.py KERNELS STATISTICS [--least N] [--lines]

KERNELS is a folder of PTX files, STATISTICS what processes left in VISOPS_PTX_STATS.
"""

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Counts:
    """Of a class of instructions."""

    issues: int = 0  # warps that ran one
    lanes: int = 0
    units: int = 0  # sectors of 32 bytes of global memory, or passes of shared memory
    least: int = 0  # the fewest that would do
    lines: int = 0  # of 128 bytes of global memory
    bytes: int = 0  # that lanes asked for


@dataclass
class Kernel:
    """A kernel and what it has done."""

    file: str
    name: str = ""
    has_run: bool = False
    launches: int = 0  # of processes that were not killed
    threads: int = 0
    instructions: int = 0  # in its text
    local: int = 0  # bytes of memory
    shared: int = 0
    touched: int = 0  # bytes of global memory, each once a launch
    longest: int = 0  # instructions of the warp that ran most, of each launch
    never: set[int] | None = None  # lines that no process has executed
    operations: Counter[str] = field(default_factory=Counter)  # by warps
    banks: dict[int, list[int]] = field(default_factory=dict)  # by line: issues, passes, the fewest
    classes: dict[str, Counts] = field(default_factory=lambda: defaultdict(Counts))

    def total(self, *names: str) -> Counts:
        """Sum classes, all by default."""
        chosen = [c for name, c in self.classes.items() if not names or name in names]
        return Counts(*(sum(getattr(c, n) for c in chosen) for n in Counts.__annotations__))


Kernels = dict[tuple[str, str], Kernel]  # by file and readable()


def kernels_of(folder: Path) -> Kernels:
    """Every kernel that nvcc has made."""
    return {
        (file.name, readable(name)): Kernel(file.name)
        for file in sorted(folder.glob("*.ptx"))
        for name in re.findall(r"^(?:\.visible )?\.entry (\w+)\(", file.read_text(), re.M)
    }


def add_statistics(kernels: Kernels, lines: Iterable[str]) -> None:
    """Add what a process has written (tests/ptx/hook/statistics.cpp)."""
    kernel = Kernel("")
    for line in lines:
        kind, *words = line.split("\t")
        if kind == "ran":
            kernels.setdefault((words[0], readable(words[1])), Kernel(words[0])).has_run = True
        elif kind == "kernel":
            file, mangled, name, *numbers = words
            launches, threads, instructions, local, shared, touched, longest = map(int, numbers)
            kernel = kernels.setdefault((file, readable(mangled)), Kernel(file))
            kernel.has_run = True
            kernel.name, kernel.instructions = name, instructions
            kernel.local, kernel.shared = local, shared
            kernel.launches += launches
            kernel.threads += threads
            kernel.touched += touched
            kernel.longest += longest
        elif kind == "class":
            counts = kernel.classes[words[0]]
            for name, count in zip(Counts.__annotations__, words[1:], strict=True):
                setattr(counts, name, getattr(counts, name) + int(count))
        elif kind == "op":
            kernel.operations[words[0]] += int(words[1])
        elif kind == "banks":
            before = kernel.banks.get(int(words[0]), [0, 0, 0])
            kernel.banks[int(words[0])] = [
                a + int(b) for a, b in zip(before, words[1:], strict=True)
            ]
        elif kind == "never":
            never = {int(number) for number in words[0].split()}
            kernel.never = never if kernel.never is None else kernel.never & never


def readable(mangled: str) -> str:
    """A mangled name without what is of one compilation."""
    return re.sub(r"\d+_GLOBAL__N__[0-9a-f]{8}_\d+_\w+?_cu_[0-9a-f]{8}_\d+", "", mangled)


def page(kernels: Kernels, lines: bool) -> str:
    """The report."""
    ran = [kernel for kernel in kernels.values() if kernel.has_run]
    launches, threads = sum(k.launches for k in ran), sum(k.threads for k in ran)
    text = [f"{len(ran)} of {len(kernels)} kernels ran: {launches} launches, {threads} threads"]
    counted = [(k, len(k.never)) for k in ran if k.never is not None]
    if counted:
        total = sum(k.instructions for k, _ in counted)
        share = 1 - sum(never for _, never in counted) / total
        text.append(f"of their {total} instructions, {100 * share:.1f} % were executed")
    files: dict[str, list[tuple[str, Kernel]]] = defaultdict(list)
    for (file, name), kernel in kernels.items():
        files[file].append((name, kernel))
    for file, found in files.items():
        missing = [name for name, kernel in found if not kernel.has_run]
        text.append(f"{file:55s} {len(found) - len(missing):3d} of {len(found):3d} kernels")
        text += [f"    never ran: {name}" for name in missing]
    text += [f"local memory: {k.local} bytes a thread, {k.name} ({k.file})" for k in ran if k.local]
    if lines:
        text += [f"{k.file} {k.name} never: {sorted(k.never or ())}" for k in ran]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("statistics", type=Path)
    parser.add_argument("--least", type=int, default=0, help="fewer kernels that ran are an error")
    parser.add_argument("--lines", action="store_true", help="lines that never ran, where counted")
    arguments = parser.parse_args()
    kernels = kernels_of(arguments.kernels)
    for file in sorted(arguments.statistics.glob("*.txt")):
        add_statistics(kernels, file.read_text().splitlines())
    print(page(kernels, arguments.lines))
    ran = sum(kernel.has_run for kernel in kernels.values())
    if ran < arguments.least:
        sys.exit(f"{ran} kernels have run, at least {arguments.least} should")


if __name__ == "__main__":
    main()
