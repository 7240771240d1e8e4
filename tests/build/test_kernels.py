"""The choice of the kernel; no product contracted with a sum; ARM's vectors with SIMDe."""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import fresh
import numpy as np
import pytest
import torch
import visops
from kernels import every_slot, use_slot
from visops._loader import LIBRARY


def run(code: str, cpu: str | None) -> subprocess.CompletedProcess[str]:
    return fresh.run(f"import numpy as np, torch, visops\n{code}", VISOPS_CPU=cpu)


def test_the_environment_forces_a_slot() -> None:
    assert run("print(visops.build_info()['cpu'])", "default").stdout.split() == ["default"]


@every_slot
def test_every_slot_has_kernels(slot: str) -> None:
    image = torch.arange(12.0).reshape(1, 1, 3, 4)
    array = np.arange(12, dtype=np.uint8).reshape(3, 4)
    with use_slot(slot):
        assert visops.build_info()["cpu"] == slot
        assert torch.equal(visops.warp_affine(image, torch.eye(2, 3)), image)
        assert (visops.warp_affine(array, np.eye(2, 3)) == array).all()


@pytest.mark.parametrize("cpu", [None, ""])
def test_default_is_the_best_real_one(cpu: str | None) -> None:
    real = [name for name in visops.build_info()["cpu_available"] if name != "cuda_emulated"]
    assert run("print(visops.build_info()['cpu'])", cpu).stdout.split() == [real[-1]]


@pytest.mark.parametrize("cpu", ["avx", "cuda"])
def test_other_values_are_errors_that_list_the_available(cpu: str) -> None:
    code = """
def attempt(call):
    try:
        print(call())
    except Exception as error:
        print(error)

attempt(visops.build_info)
attempt(lambda: visops.warp_affine(torch.zeros(1, 1, 3, 4), torch.eye(2, 3)))
attempt(lambda: visops.warp_affine(np.zeros((3, 4), np.uint8), np.eye(2, 3)))
"""
    available = ", ".join(visops.build_info()["cpu_available"])
    message = (
        f"visops: VISOPS_CPU={cpu} is not available; this build on this processor has: {available}"
    )
    assert run(code, cpu).stdout.splitlines() == [message] * 3


ROOT = Path(__file__).resolve().parents[2]

# Objects of a build for ARM (`make test-arm`); on ARM itself the library is disassembled.
ARM_OBJECTS = sorted((ROOT / "build" / "ninja-linux-aarch64").rglob("*.o"))
# Clang writes fmod by a power of two as a product and a difference, fused: exact either way.
EXACT = re.compile(r"rotation_of|RandomRotation|RandomAffine|adjust_operations")

HOST = {"amd64": "x86_64", "arm64": "aarch64"}.get(
    platform.machine().lower(), platform.machine().lower()
)

# Instructions that fuse a product with a sum, and one that shows that floats are multiplied.
FUSED = {
    "x86_64": re.compile(r"\bvfn?m(?:add|sub)\w+"),
    # Vectors, scalars, by elements, half precision into single, complex, BFloat16.
    "aarch64": re.compile(r"\b(?:fn?m(?:add|sub)|fml[as]l?2?|fcmla|bfml\w+|bfdot|bfmmla)\b"),
}

MULTIPLY = {"x86_64": "vmulps", "aarch64": "fmul"}


def disassembled(machine: str, *files: Path) -> str:
    """Return the code of libraries or objects."""
    names = ("objdump", "llvm-objdump", f"{machine}-linux-gnu-objdump")
    name = next((n for n in names[machine != HOST :] if shutil.which(n)), None)
    if name is None:
        pytest.skip(f"no objdump for {machine}")
    command = [name, "--disassemble", "--no-show-raw-insn", *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def contracted(code: str, machine: str) -> set[tuple[str, str]]:
    """Return functions and their instructions that fuse a product with a sum."""
    heading = re.compile(r"^[0-9a-f]+ <(.+)>:$")
    quick = "vf" if machine == "x86_64" else "\tf"
    function = ""
    found: set[tuple[str, str]] = set()
    for line in code.splitlines():
        if line.endswith(">:"):
            function = heading.match(line)[1]  # type: ignore[index]
        elif quick in line or "\tbf" in line:  # few lines: matching each would take half a minute
            found.update((function, name) for name in FUSED[machine].findall(line))
    return found


def assert_only_gemm_contracts(code: str, machine: str) -> None:
    """Products of matrices, which state a tolerance, are meant to be: functions named gemm_*.

    -ffp-contract=off does not keep GCC from pairing a*b + c*d with e*f - g*h into fmaddsub.
    """
    assert MULTIPLY[machine] in code  # else this looks at nothing
    found = contracted(code, machine)
    assert any("gemm_tile" in function for function, _ in found)  # else names are lost
    found = {f for f in found if not (machine == "aarch64" and EXACT.search(f[0]))}
    assert sorted(f for f in found if "gemm_" not in f[0]) == []


@pytest.mark.skipif(HOST not in FUSED, reason="instructions that nobody has listed")
def test_no_product_is_contracted_with_a_sum() -> None:
    assert_only_gemm_contracts(disassembled(HOST, LIBRARY), HOST)


@pytest.mark.skipif(not ARM_OBJECTS, reason="nothing was built for ARM here")
def test_no_product_is_contracted_with_a_sum_on_arm() -> None:
    assert_only_gemm_contracts(disassembled("aarch64", *ARM_OBJECTS), "aarch64")


@pytest.mark.parametrize(
    ("machine", "fused", "others"),
    [
        (
            "x86_64",
            ["vfmadd231ps %zmm0,%zmm1,%zmm2", "vfmaddsub213ps %zmm0,%zmm1,%zmm2"],
            ["vmulps %zmm0,%zmm1,%zmm2"],
        ),
        (
            "aarch64",
            [
                *("fmadd\ts0, s1, s2, s0", "fnmsub\td0, d1, d2, d0", "fmla\tv0.4s, v1.4s, v2.4s"),
                *("fmls\tv0.2d, v1.2d, v2.d[1]", "fmlal2\tv0.4s, v1.4h, v2.4h"),
                *("bfmlalb\tv0.4s, v1.8h, v2.8h", "fcmla\tv0.4s, v1.4s, v2.4s, #90"),
            ],
            ["fmul\tv0.4s, v1.4s, v2.4s", "fnmul\ts0, s1, s2", "fmov\ts0, s1"],
        ),
    ],
)
def test_contracted_products_are_found(machine: str, fused: list[str], others: list[str]) -> None:
    function = "_ZN6visops12_GLOBAL__N_111warp_kernelEv"
    lines = [f"    1010:\t{code}" for code in (*fused, *others)]
    found = contracted("\n".join([f"0000000000001010 <{function}>:", *lines]), machine)
    assert found == {(function, code.split()[0]) for code in fused}


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
