"""Writes docs/cuda_kernels.md."""

import re
from collections.abc import Iterable
from pathlib import Path

from cuda_report.gates import LEAST_OCCUPANCY
from cuda_report.kernels import ROOT, Kernel, Library, by_row, most
from cuda_report.limits import OCCUPANCY, STACK, Group

PAGE = ROOT / "docs" / "cuda_kernels.md"
COMPILED = re.compile(r"Compiled by nvcc (\S+) for (.+?)\.$", re.MULTILINE)

INTRODUCTION = """\
# What the compiler made of the CUDA kernels

`python scripts/cuda_report --write` made this page from the object code and the PTX in
`libvisops_cuda.so`. It takes no GPU, and it says nothing about
time: what a kernel takes, not how fast it is.

Compiled by nvcc {compiler} for {archs}.

- A row has all kernels of a template that differ in types and modes, and the largest numbers among
  them; those that compute in float64 have a row of their own.
- **Registers** are of a thread. So is the **stack**, in bytes: arrays that are indexed at run time
  and, after the plus sign, registers that were spilled or saved.
- **Shared** memory of a block, in bytes: static and, after the plus sign, what launches usually ask
  for.
- **Occupancy** is the part of a multiprocessor's threads that registers, shared memory and the size
  of blocks let run at once.
- **FP64** and **divisions** count float64 operations and divisions of integers (a few tens of
  instructions each) in loops, the loop over a grid's work included, and, after the slash, in loops
  within loops. They are counts of instructions in the PTX, however often those run.

Only kernels of network convolutions have fused multiply-adds, and only those named `gemm_*` use
matrix units (`mma`). None approximates, and none reads as constant (`ld.global.nc`) what it writes,
where its pointers can be told apart. `roi_pool` rounds corners half away from zero, and `gemm_*`
what is in the middle of two TF32; all other arithmetic rounds half to even.

"""


def page_of(library: Library) -> str:
    """The page, from the kernels alone: the same for the same object code."""
    archs = library.archs
    text = INTRODUCTION.format(compiler=library.compiler, archs=_archs(archs))
    families: dict[str, list[Kernel]] = {}
    for kernel in library.kernels:
        families.setdefault(Path(kernel.file).parts[2] if kernel.file else "", []).append(kernel)
    columns = ["kernel", "file", "kernels", "threads", "registers", "stack", "shared"]
    columns += [*(f"occupancy sm_{arch}" for arch in archs), "FP64", "divisions"]
    for family, kernels in sorted(families.items()):
        text += f"## {family}\n\n| {' | '.join(columns)} |\n|{'-|' * len(columns)}\n"
        for row, group in sorted(by_row(kernels).items()):
            text += f"| {' | '.join(_cells(row, group, archs))} |\n"
        text += "\n"
    text += "## Exceptions\n\n"
    text += _exceptions("Stack, where kernels should have none; in bytes, at most:", STACK)
    return text + "\n" + _exceptions(f"Occupancy below {LEAST_OCCUPANCY} %, at least:", OCCUPANCY)


def compiled_by(page: str) -> tuple[str, str]:
    """The compiler and the architectures that a page was made from."""
    found = COMPILED.search(page)
    return (found[1], found[2]) if found else ("", "")


def same_build(library: Library, page: str) -> bool:
    """Whether the page and the library can be compared at all."""
    return compiled_by(page) == (library.compiler, _archs(library.archs))


def _archs(archs: Iterable[int]) -> str:
    return ", ".join(f"sm_{arch}" for arch in archs)


def _cells(row: str, kernels: list[Kernel], archs: list[int]) -> Iterable[str]:
    yield f"`{row}`"
    yield _file_of(kernels)
    yield str(len(kernels))
    yield _range(kernel.entry.threads for kernel in kernels)
    yield _range(max(r.registers for r in kernel.resources.values()) for kernel in kernels)
    arrays, stack = (
        max(kernel.entry.arrays for kernel in kernels),
        max(kernel.stack for kernel in kernels),
    )
    spilled = max(kernel.spilled for kernel in kernels)
    yield f"{arrays} + {spilled}" if stack else ""
    static = max(r.shared for kernel in kernels for r in kernel.resources.values())
    dynamic = max(kernel.dynamic_shared() for kernel in kernels)
    yield f"{static} + {dynamic}" if dynamic else str(static or "")
    for arch in archs:
        yield f"{min(int(100 * kernel.occupancy(arch)) for kernel in kernels)} %"
    for counts in ("doubles", "divisions"):
        inside, inner = most(kernels, counts)
        yield f"{inside} / {inner}" if inside else ""


def _file_of(kernels: list[Kernel]) -> str:
    """Their file, or the folder that all their files are in."""
    files = {kernel.file for kernel in kernels}
    path = Path(files.pop()) if len(files) == 1 else Path(files.pop()).parent
    return path.relative_to("csrc/cuda").as_posix()


def _range(values: Iterable[int]) -> str:
    found = sorted(set(values))
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"


def _exceptions(heading: str, groups: Iterable[Group]) -> str:
    text = f"{heading}\n\n"
    for group in groups:
        limits = ", ".join(f"`{row}` {value}" for row, value in sorted(group.limits.items()))
        text += f"- {group.reason}: {limits}.\n"
    return text
