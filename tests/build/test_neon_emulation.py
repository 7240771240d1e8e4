"""ARM's vectors beside the plain ones: with SIMDe on x86, and in an emulator where there is one."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
EMULATION = REPOSITORY / "tests" / "neon_emulation"
FLAGS = ["-std=c++17", "-O1", "-ffp-contract=off", "-Icsrc", "-DVISOPS_ISA_SLOT=0"]
HAS_SIMDE = Path("/usr/include/simde/arm/neon.h").is_file()
CROSS = ["aarch64-linux-gnu-g++", "-static"]


def digests(program: Path, compiler: list[str], neon: bool, runner: tuple[str, ...] = ()) -> str:
    """Compile the self-test, and return what it prints."""
    source = str(EMULATION / "self_test.cpp")
    command = [*compiler, *FLAGS, f"-DVISOPS_NEON={int(neon)}", source, "-o", str(program)]
    subprocess.run(command, check=True, cwd=REPOSITORY)
    run = [*runner, str(program)]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    printed = digests(tmp_path_factory.mktemp("plain") / "program", ["g++"], neon=False)
    assert [line.split()[0] for line in printed.splitlines()] == ["vectors", "bits", "sums"]
    return printed


@pytest.mark.skipif(
    platform.machine() != "x86_64" or not HAS_SIMDE, reason="SIMDe for x86 is not installed"
)
def test_with_simde(plain: str, tmp_path: Path) -> None:
    quiet = ["-Wno-psabi", "-Wno-ignored-attributes"]
    compiler = ["g++", "-msse4.1", *quiet, "-isystem", str(EMULATION)]
    assert digests(tmp_path / "program", compiler, neon=True) == plain


@pytest.mark.skipif(
    shutil.which(CROSS[0]) is None or shutil.which("qemu-aarch64-static") is None,
    reason="no cross compiler, or no emulator",
)
@pytest.mark.parametrize("neon", [False, True])
def test_in_the_emulator(neon: bool, plain: str, tmp_path: Path) -> None:
    runner = ("qemu-aarch64-static",)
    assert digests(tmp_path / "program", CROSS, neon, runner) == plain
