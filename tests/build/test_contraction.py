"""No product is contracted with a sum, on any processor: results would have other bits."""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from visops._loader import LIBRARY

ROOT = Path(__file__).resolve().parents[2]
# Objects of a cross build (`make test-arm`); on ARM itself the library is disassembled.
ARM_OBJECTS = sorted((ROOT / "build" / "ninja-aarch64").rglob("*.o"))
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
    names = ("objdump", f"{machine}-linux-gnu-objdump")
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
