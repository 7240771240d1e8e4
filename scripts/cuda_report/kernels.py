"""Every kernel of a library, from its object code and its PTX."""

import ctypes
import ctypes.util
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuda_report.dump import Resources, read_compiler, read_ptx, read_resources
from cuda_report.occupancy import occupancy
from cuda_report.ptx import Entry, parse_ptx

ROOT = Path(__file__).resolve().parents[2]

# Bytes of dynamic shared memory that launches ask for: the usual and the most. Kernels that have a
# template argument for it take none where that is false.
DYNAMIC_SHARED = {
    "filter_separable": (21760, 40960),  # 9 x 9, or kMostFilterTaps both ways
    "convolve2d": (6 << 10, 48 << 10),  # a 7 x 7 kernel, or kInputBytes and kKernelBytes
    "roi_align_mean": (24 << 10, 24 << 10),  # two lists of kMostListBytes
    "roi_align_max": (24 << 10, 24 << 10),
    "roi_align_backward_boxes": (24 << 10, 24 << 10),
    "ps_roi_align": (24 << 10, 24 << 10),
    "roi_align_gather": (20 << 10, 32512),  # kWeightBytes, or a box's kMostWeightBytes
    "ps_roi_align_gather": (20 << 10, 32512),
    "roi_align_rotated_backward": (16896, 16896),  # WarpSums of kMostChannelWarps
    "roi_pool_backward": (16896, 16896),
    "soft_nms_suppress": (36 << 10, 40 << 10),  # three runs of boxes in float32; kSharedBytes
}
WITHOUT_LISTS = re.compile(r"<[^<>]*\bfalse>$")
SOMETIMES_LISTED = ("roi_align_mean", "roi_align_max", "roi_align_backward_boxes", "ps_roi_align")


@dataclass(frozen=True)
class Kernel:
    """A kernel for one set of template arguments."""

    name: str  # roi_paste<float, (Interpolation)1>
    file: str  # csrc/cuda/roi/paste_kernel.cu
    entry: Entry
    resources: Mapping[int, Resources]  # by architecture

    @property
    def template(self) -> str:
        return self.name.partition("<")[0]

    @property
    def row(self) -> str:
        """What gates and the page call it: the template, and whether it computes in float64."""
        variants = [word for word in ("double", "Rotated") if word in self.name.partition("<")[2]]
        return f"{self.template}<{variants[0]}>" if variants else self.template

    def dynamic_shared(self, most: bool = False) -> int:
        """Bytes that a launch asks for."""
        if self.template in SOMETIMES_LISTED and WITHOUT_LISTS.search(self.name):
            return 0
        return DYNAMIC_SHARED.get(self.template, (0, 0))[most]

    def occupancy(self, arch: int) -> float:
        taken = self.resources[arch]
        shared = taken.shared + self.dynamic_shared()
        threads = self.entry.threads or 1024  # what nvcc expects without __launch_bounds__
        return occupancy(arch, threads, taken.registers, shared)

    @property
    def stack(self) -> int:
        """Bytes of a thread's stack, on the architecture with the most."""
        return max(taken.stack for taken in self.resources.values())

    @property
    def spilled(self) -> int:
        """Bytes of the stack that are not arrays: registers that did not fit, or were saved."""
        return max(0, self.stack - self.entry.arrays)


@dataclass(frozen=True)
class Library:
    compiler: str  # 13.0.88
    kernels: list[Kernel]

    @property
    def archs(self) -> list[int]:
        return sorted({arch for kernel in self.kernels for arch in kernel.resources})


def read_library(path: Path) -> Library:
    """Read the CUDA library; raises NotReadableError, saying what is missing."""
    kernels = join(read_resources(path), parse_ptx(read_ptx(path)), source_files())
    return Library(read_compiler(path), kernels)


def join(
    resources: Mapping[str, Mapping[int, Resources]],
    entries: Iterable[Entry],
    files: Mapping[str, list[str]],
) -> list[Kernel]:
    """Bring together what is known of each kernel, by mangled name."""
    found = []
    for entry in entries:
        in_file = re.search(r"_GLOBAL__N__[0-9a-f]+_(\d+)_", entry.name)
        stem = entry.name[in_file.end() :][: int(in_file[1])] if in_file else ""
        name = short_name(demangled(entry.name))
        file = file_of(name, files.get(stem, []))
        found.append(Kernel(name, file, entry, resources[entry.name]))
    return sorted(found, key=lambda kernel: (kernel.file, kernel.name))


def source_files() -> dict[str, list[str]]:
    """CUDA files by the name that nvcc gives their anonymous namespaces: pool_kernel_cu."""
    files: dict[str, list[str]] = {}
    for path in sorted(ROOT.glob("csrc/cuda/**/*.cu")):
        name = re.sub(r"\W", "_", path.name)
        files.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    return files


def file_of(kernel: str, files: list[str]) -> str:
    """Return the file that has a kernel, of those with the same name in several families.

    It is defined there, or else in a header of the family.
    """
    if len(files) == 1:
        return files[0]
    definition = re.compile(rf"\b{re.escape(kernel.split('<')[0])}\(const __grid_constant__")
    for headers in (False, True):
        for file in files:
            path = ROOT / file
            candidates = sorted(path.parent.glob("*.h")) if headers else [path]
            if any(definition.search(own.read_text()) for own in candidates):
                return file
    return ""


def demangled(name: str) -> str:
    """Ask the C++ library for the name that a mangled one stands for."""
    library = ctypes.CDLL(ctypes.util.find_library("stdc++") or "libstdc++.so.6")
    call = library.__cxa_demangle
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    address = call(name.encode(), None, None, None)
    if not address:
        return name
    text = ctypes.string_at(address).decode()
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    free(address)
    return text


def short_name(demangled_name: str) -> str:
    """Drop the return type, namespaces and parameters of a demangled kernel."""
    text = re.sub(r"visops::|_GLOBAL__N__\w+?::|\(anonymous namespace\)::", "", demangled_name)
    text = text.removeprefix("void ")
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            return text[:i]
    return text


def by_row(kernels: Iterable[Kernel]) -> dict[str, list[Kernel]]:
    """Kernels that differ in types and modes only, under one name."""
    rows: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        rows.setdefault(kernel.row, []).append(kernel)
    return rows


def most(kernels: Iterable[Kernel], counts: str) -> tuple[int, int]:
    """The largest counts of a kernel's `doubles` or `divisions`: in loops, and in inner loops."""
    found: list[Counter[int]] = [getattr(kernel.entry, counts) for kernel in kernels]
    inside = max(sum(n for depth, n in count.items() if depth > 0) for count in found)
    inner = max(sum(n for depth, n in count.items() if depth > 1) for count in found)
    return inside, inner
