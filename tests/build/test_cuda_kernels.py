"""What nvcc made of the CUDA kernels, against the rules of scripts/cuda_report; needs no GPU."""

import functools
from pathlib import Path

import pytest
import visops
from cuda_report.dump import NotReadableError
from cuda_report.gates import (
    arithmetic_findings,
    launch_findings,
    resource_findings,
    unused_limits,
)
from cuda_report.kernels import Library, read_library
from cuda_report.page import PAGE, compiled_by, same_build

CUDA_LIBRARY = Path(visops.__file__).parent / "lib" / "libvisops_cuda.so"

# One process reads the library, which takes some seconds.
pytestmark = pytest.mark.xdist_group("cuda_kernels")


@functools.cache
def read() -> Library | str:
    try:
        return read_library(CUDA_LIBRARY)
    except NotReadableError as error:
        return str(error)


@pytest.fixture
def library() -> Library:
    """What was built, unless nothing can read it."""
    if not CUDA_LIBRARY.exists():
        pytest.skip("visops was built without CUDA")
    found = read()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture
def recorded(library: Library) -> Library:
    """The same, if it was compiled as docs/cuda_kernels.md was."""
    page = PAGE.read_text(encoding="utf-8")
    if not same_build(library, page):
        pytest.skip(f"compiled by nvcc {library.compiler}; the page is of {compiled_by(page)}")
    return library


def listed(findings: list[str]) -> str:
    return "\n".join(findings)


def test_all_kernels_are_read(library: Library) -> None:
    assert len(library.kernels) > 100
    assert all(kernel.file for kernel in library.kernels)
    assert {"affine_forward", "nms_meet"} <= {kernel.template for kernel in library.kernels}


def test_arithmetic(library: Library) -> None:
    """No contraction, no approximation, to nearest, no stale reads."""
    assert listed(arithmetic_findings(library.kernels)) == ""


def test_launches(library: Library) -> None:
    assert listed(launch_findings(library.kernels)) == ""


def test_stack_and_occupancy(recorded: Library) -> None:
    """Exceptions are in scripts/cuda_report/limits.py, each with a reason."""
    assert listed(resource_findings(recorded)) == ""


def test_exceptions_are_needed(recorded: Library) -> None:
    assert listed(unused_limits(recorded)) == ""
