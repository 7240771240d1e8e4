"""The emulation of AVX-512 (tests/avx512_emulation), beside the processor's own instructions."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
EMULATION = REPOSITORY / "tests/avx512_emulation"
NOT_HERE = 77

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="GCC's flags"
)


def functions(text: str) -> set[str]:
    """The 512-bit functions that a file names."""
    return set(re.findall(r"_mm512_[a-z0-9_]+", text))


def test_every_function_that_kernels_call_is_emulated() -> None:
    kernels = [p.read_text() for p in (REPOSITORY / "csrc/cpu").rglob("*") if p.is_file()]
    called = set().union(*map(functions, kernels))
    assert called == functions((EMULATION / "avx512.h").read_text())
    assert "_mm512_loadu_ps" in called


def test_functions_give_the_bits_of_the_processor(tmp_path: Path) -> None:
    program = tmp_path / "self_test"
    flags = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mf16c", "-mfma"]
    flags += ["-std=c++17", "-O1", "-ffp-contract=off", "-Wno-ignored-attributes"]
    subprocess.run(
        ["g++", *flags, str(EMULATION / "self_test.cpp"), "-o", str(program)], check=True
    )
    run = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode == NOT_HERE:
        pytest.skip("this processor has no AVX-512")
    assert run.returncode == 0, run.stdout
