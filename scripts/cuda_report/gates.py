"""The rules that kernels keep, judged by what nvcc made of them."""

from collections.abc import Iterable

from cuda_report.kernels import DYNAMIC_SHARED, Kernel, Library, by_row
from cuda_report.limits import (
    CALLS,
    FUSED,
    MATRIX_UNITS,
    OCCUPANCY,
    ROUNDINGS,
    STACK,
    Group,
    limit,
)
from cuda_report.occupancy import MOST_SHARED, MULTIPROCESSORS

LEAST_OCCUPANCY = 50  # percent


def arithmetic_findings(kernels: Iterable[Kernel]) -> list[str]:
    """What breaks the rules of results, with any compiler: equal bits, no stale reads."""
    found = []
    for kernel in kernels:
        entry = kernel.entry
        if entry.fused and kernel.template not in FUSED:
            found.append(f"{kernel.name}: fused multiply-adds: {_listed(entry.fused)}")
        if entry.matrices and not kernel.template.startswith(MATRIX_UNITS):
            found.append(f"{kernel.name}: matrix units: {_listed(entry.matrices)}")
        modes = set(entry.roundings) - ROUNDINGS.get(kernel.template, set())
        if modes:
            found.append(f"{kernel.name}: rounds other than to nearest: {_listed(modes)}")
        if entry.inexact:
            found.append(f"{kernel.name}: approximate arithmetic: {_listed(entry.inexact)}")
        stale = entry.cached_reads & entry.writes
        if stale and kernel.template not in CALLS:
            found.append(
                f"{kernel.name}: reads memory as constant (ld.global.nc) that it writes:"
                f" the pointer at argument+byte {_listed(stale)}"
            )
    return found


def launch_findings(kernels: Iterable[Kernel]) -> list[str]:
    """What could keep a kernel from starting."""
    found = []
    for kernel in kernels:
        if kernel.entry.threads == 0:
            found.append(f"{kernel.name}: has no __launch_bounds__")
        if kernel.entry.dynamic_shared and kernel.template not in DYNAMIC_SHARED:
            found.append(f"{kernel.name}: uses dynamic shared memory, not in DYNAMIC_SHARED")
        for arch, taken in kernel.resources.items():
            total = taken.shared + kernel.dynamic_shared(most=True)
            if total > MOST_SHARED:
                found.append(
                    f"{kernel.name}: {total} bytes of shared memory on sm_{arch}, static and"
                    f" dynamic; more than {MOST_SHARED} must be asked for"
                )
    return found


def resource_findings(library: Library) -> list[str]:
    """What costs speed: stack, and too few threads at once. Depends on the compiler."""
    found = []
    for row, kernels in by_row(library.kernels).items():
        worst = max(kernels, key=lambda kernel: kernel.stack)
        most = limit(STACK, row) or 0
        if worst.stack > most:
            found.append(
                f"{row}: {worst.stack} bytes of stack a thread, {worst.spilled} of them spilled;"
                f" allowed are {most} ({worst.name})"
            )
        for arch in sorted(set(library.archs) & set(MULTIPROCESSORS)):
            fewest = min(kernels, key=lambda kernel: kernel.occupancy(arch))
            percent = int(100 * fewest.occupancy(arch))
            least = limit(OCCUPANCY, row) or LEAST_OCCUPANCY
            if percent < least:
                found.append(
                    f"{row}: occupancy {percent} % on sm_{arch}, must be {least} ({fewest.name},"
                    f" {fewest.resources[arch].registers} registers)"
                )
    return found


def unused_limits(library: Library) -> list[str]:
    """Exceptions that no kernel needs any more."""
    rows = by_row(library.kernels)
    found = []
    for name, groups in (("STACK", STACK), ("OCCUPANCY", OCCUPANCY)):
        for row in _rows_of(groups):
            if row not in rows:
                found.append(f"limits.{name} names {row}, which is no kernel")
            elif name == "STACK" and max(kernel.stack for kernel in rows[row]) == 0:
                found.append(f"limits.STACK names {row}, which has no stack")
            elif name == "OCCUPANCY" and all(
                100 * kernel.occupancy(arch) >= LEAST_OCCUPANCY
                for kernel in rows[row]
                for arch in kernel.resources
            ):
                found.append(f"limits.OCCUPANCY names {row}, which has {LEAST_OCCUPANCY} %")
    return found


def _rows_of(groups: Iterable[Group]) -> list[str]:
    return [row for group in groups for row in group.limits]


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))
