"""The emulation of AVX-512 (tests/avx512_emulation), beside the processor's own instructions."""

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
EMULATION = REPOSITORY / "tests/avx512_emulation"
AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
# What self_test.cpp prints on processors with AVX-512. A change of the self-test changes it: take
# the new one from such a processor.
DIGEST = "e141126ce5d1d0be"

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


def digest_of(program: Path, isa: list[str]) -> str:
    """Compile the self-test for these instructions, and return what it prints."""
    flags = [*isa, "-mf16c", "-mfma", "-std=c++17", "-O1", "-ffp-contract=off"]
    flags += ["-Wno-ignored-attributes", "-Wno-psabi"]
    source = EMULATION / "self_test.cpp"
    subprocess.run(["g++", *flags, str(source), "-o", str(program)], check=True)
    run = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 0, run.stdout
    return run.stdout.split()[-1]


def test_functions_give_the_bits_of_avx512(tmp_path: Path) -> None:
    """What a processor with AVX-512 gave is known, so every processor can tell."""
    assert digest_of(tmp_path / "emulated", ["-mavx2"]) == DIGEST
    if set(AVX512) <= set(Path("/proc/cpuinfo").read_text().split()):
        assert digest_of(tmp_path / "real", [f"-m{name}" for name in AVX512]) == DIGEST
