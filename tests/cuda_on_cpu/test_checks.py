"""The emulation runs kernels right, and its checks of memory find faults put into some."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CHECKS = HERE / "checks"
FAULTS = CHECKS / "faults.cu"
ROOT = HERE.parents[1]
COMPILER = shlex.split(os.environ.get("CXX", "c++"))
COMMON = [*COMPILER, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-DVISOPS_CUDA_EMULATION"]
COMMON += [f"-I{HERE}", f"-I{ROOT / 'csrc'}"]

sys.path.insert(0, str(ROOT / "scripts"))
from build_sanitizers import check_flags, emulation_flags  # noqa: E402


def compiler_is_gcc() -> bool:
    command = [*COMPILER, "-dM", "-E", "-x", "c++", os.devnull]
    try:
        macros = subprocess.run(command, capture_output=True, text=True).stdout
    except OSError:
        return False
    return "__GNUC__" in macros and "__clang__" not in macros


pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads ELF and Linux's /proc"),
    pytest.mark.skipif(shutil.which(COMPILER[0]) is None, reason="needs a C++ compiler"),
    pytest.mark.xdist_group("cuda_checks"),  # one process compiles for all tests
]
checked = pytest.mark.skipif(not compiler_is_gcc(), reason="the checks are compiled with GCC")


@pytest.fixture(scope="module")
def self_test(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("cuda_on_cpu") / "self_test"
    source = HERE / "self_test.cu"
    command = [*COMMON, "-O1", "-x", "c++", str(source), "-o", str(program)]
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
def test_emulation(self_test: Path, check: str) -> None:
    result = subprocess.run([str(self_test), check], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr


# Fault, what it is called, and who did it; or who else had a part in it.
EXPECTED = {
    "missing_syncthreads": ("a race", r"thread \(32,0,0\) .* thread \(0,0,0\) of the same block"),
    "missing_second_barrier": ("a race", r"thread \(32,0,0\) .* thread \(0,0,0\) of the same"),
    "missing_syncwarp": ("a race", r"thread \(16,0,0\) .* thread \(15,0,0\) of the same block"),
    "shuffle_is_no_barrier": ("a race", r"thread \(0,0,0\) .* thread \(31,0,0\) of the same"),
    "narrow_mask": ("a race", r"thread \(16,0,0\) .* thread \(15,0,0\) of the same block"),
    "unseen_write": ("a race", r"thread \(0,0,0\) .* GCC tells nothing of"),
    "syncwarp_across_warps": ("a race", r"thread \(0,0,0\) .* thread \(32,0,0\) of the same"),
    "uninitialised": (
        "uninitialised memory",
        r"thread \(31,0,0\) of block \(1,0,0\) .* shared `tile` of 128 bytes .* in the block",
    ),
    "uninitialised_dynamic": (
        "uninitialised memory",
        r"thread \(5,0,0\) .* offset 20 of dynamic shared memory of 128 bytes",
    ),
    "unwritten_scratch": ("uninitialised memory", r"offset 0 of scratch of 256 bytes"),
    "index_beyond_shared": ("out of bounds", r"thread \(31,0,0\) .* element 32 of an array"),
    "pointer_beyond_shared": ("out of bounds", r"thread \(31,0,0\) .* past the end of shared"),
    "beyond_dynamic_shared": ("out of bounds", r"past the end of dynamic shared memory of 124"),
    "beyond_tensor": ("out of bounds", r"thread \(99,0,0\) .* 0 bytes past the end of a tensor"),
    "host_pointer": ("out of bounds", r"thread \(0,0,0\) of block \(0,0,0\) reads 4 bytes"),
    "misaligned": ("misaligned", r"thread \(0,0,0\) .* 2 bytes off the alignment"),
    "divergent_barrier": ("different barriers", r"thread 0 at .* thread 16 at"),
    "divergent_warp_barrier": ("a warp barrier never sees", r"thread 0 at .* thread 16 at"),
    "cross_block_write": ("a race", r"of block \(1,0,0\) .* of block \(0,0,0\) wrote it"),
    "cross_block_read": ("a race", r"of block \(1,0,0\) reads .* of block \(0,0,0\) wrote it"),
    "atomic_and_plain": ("a race", r"thread \(1,0,0\) .* writes .* thread \(0,0,0\)"),
    "many_parameters": ("parameters take", "40008 bytes, more than 32764"),
    "much_shared": ("too much shared memory", "50000 bytes, 10000 of them dynamic"),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `faults` and `probes`."""
    folder = tmp_path_factory.mktemp("checks")
    common = [*COMMON, f"-I{CHECKS}", "-c"]
    names = ("control", "hooks", "memory", "races", "report", "schedules", "variables")
    sources = [CHECKS / f"{name}.cpp" for name in names]
    commands = [[*common, "-O1", *check_flags(), str(source)] for source in sources]
    for kernels in (FAULTS, CHECKS / "probes.cu"):
        commands.append([*common, *emulation_flags(["cuda"]), "-x", "c++", str(kernels)])
    running = [
        subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        for command in commands
    ]
    for process in running:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    objects = {str(source.with_suffix(".o").name) for source in sources}
    for name in ("faults", "probes"):
        linked = subprocess.run(
            [*COMPILER, *objects, f"{name}.o", "-ldl", "-lpthread", "-o", name],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert linked.returncode == 0, linked.stderr
    return folder


@pytest.fixture(scope="module")
def faults(programs: Path) -> Path:
    return programs / "faults"


def probed(programs: Path, kernel: str) -> str:
    command = [str(programs / "probes"), kernel]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout


@checked
@pytest.mark.parametrize("kernel", ["lost_update", "stale_flag"])
def test_other_schedules_change_results(programs: Path, kernel: str) -> None:
    assert int(probed(programs, kernel)) > 1


@checked
def test_other_schedules_keep_atomics(programs: Path) -> None:
    assert probed(programs, "atomics") == "1\n"


def said(program: Path, fault: str) -> str:
    result = subprocess.run([str(program), fault], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout


def lines_marked(mark: str) -> list[int]:
    lines = FAULTS.read_text().splitlines()
    return [i + 1 for i, line in enumerate(lines) if line.endswith(f"// {mark}")]


@checked
@pytest.mark.parametrize("fault", EXPECTED)
def test_fault_is_named(faults: Path, fault: str) -> None:
    kind, who = EXPECTED[fault]
    text = said(faults, fault)
    found = [line for line in text.splitlines() if kind in line]
    assert found, text
    assert f": {fault}: " in found[0]
    assert any(re.search(who, line) for line in found), text
    for mark in (f"FAULT {fault}", f"EARLIER {fault}"):
        for line in lines_marked(mark):
            assert any(re.search(rf"faults\.cu:{line}\b", one) for one in found), text


@checked
def test_every_fault_is_expected(faults: Path) -> None:
    kernels = set(re.findall(r"^__global__ void (\w+)\(", FAULTS.read_text(), re.MULTILINE))
    assert kernels - {"write_unseen", "read_unseen"} == {*EXPECTED, "sound"}


@checked
@pytest.mark.parametrize("kernels", ["sound", "sound_launches"])
def test_sound_kernels(faults: Path, kernels: str) -> None:
    assert said(faults, kernels) == "nothing\n"
