"""The emulation that runs CUDA kernels on the host is tested on kernels of its own."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CSRC = TESTS.parent / "csrc"
COMPILER = shlex.split(os.environ.get("CXX", "c++"))

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="fibers are ucontext's"),
    pytest.mark.skipif(shutil.which(COMPILER[0]) is None, reason="needs a C++ compiler"),
]


@pytest.fixture(scope="module")
def self_test(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("cuda_emulation") / "self_test"
    source = TESTS / "cuda_emulation" / "self_test.cu"
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-DVISOPS_CUDA_EMULATION"]
    includes = [f"-I{TESTS / 'cuda_emulation'}", f"-I{CSRC}"]
    command = [*COMPILER, *flags, *includes, "-x", "c++", str(source), "-o", str(program)]
    compiled = subprocess.run(command, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    return program


@pytest.mark.parametrize(
    "check",
    [
        "block_sum",
        "barriers",
        "orders",
        "three_dimensions",
        "shuffles",
        "votes",
        "atomics",
        "early_exit",
        "errors",
        "divisors",
        "byte_products",
    ],
)
def test_self(self_test: Path, check: str) -> None:
    result = subprocess.run([str(self_test), check], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
