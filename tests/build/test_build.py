"""The build: what it reports, what it must not contain, and how it fails."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import build_sanitizers
import pytest
import torch
import visops

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(visops.__file__).parent


def modules() -> list[Path]:
    return sorted(PACKAGE.glob("_C.*")) + sorted(PACKAGE.glob("_numpy.*[!i]"))


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def test_version_is_that_of_pyproject() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    assert visops.__version__ == version
    assert visops.build_info()["version"] == version


def test_build_info() -> None:
    info = visops.build_info()
    assert set(info) == {
        *("version", "torch_built", "torch_abi_target", "compiler", "cuda_built", "cuda_archs"),
        *("cpu", "cpu_available", "kernels"),
    }
    assert info["torch_abi_target"] == "2.11"
    assert info["compiler"].split()[0] in ("GCC", "Clang", "MSVC")
    assert info["cpu_available"][0] == "default"
    assert info["cpu"] in info["cpu_available"]
    assert bool(info["cuda_built"]) == bool(info["cuda_archs"])
    assert {"affine", "affine_backward_image", "affine_backward_matrix"} <= set(info["kernels"])
    for slots in info["kernels"].values():
        assert "default" in slots
        assert ("cuda" in slots) == bool(info["cuda_built"])


def contracted(disassembled: str) -> set[tuple[str, str]]:
    """Return functions and their instructions that fuse a product with a sum."""
    heading = re.compile(r"^[0-9a-f]+ <(.+)>:$")
    fused = re.compile(r"\bvfn?m(?:add|sub)\w+")
    function = ""
    found: set[tuple[str, str]] = set()
    for line in disassembled.splitlines():
        if line.endswith(">:"):
            function = heading.match(line)[1]  # type: ignore[index]
        elif "vf" in line:  # few lines: matching each would take half a minute
            found.update((function, name) for name in fused.findall(line))
    return found


def test_no_product_is_contracted_with_a_sum() -> None:
    """-ffp-contract=off does not keep GCC from pairing a*b + c*d with e*f - g*h into fmaddsub.

    Products of matrices, which state a tolerance, are meant to be: functions named gemm_*.
    """
    disassembled = subprocess.run(
        [program("objdump"), "--disassemble", "--no-show-raw-insn", str(modules()[0])],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "vmulps" in disassembled  # else this looks at nothing
    found = contracted(disassembled)
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    assert any("gemm_tile" in function for function, _ in found) == x86  # else names are lost
    assert sorted(f for f in found if "gemm_" not in f[0]) == []


def test_contracted_products_are_found() -> None:
    lines = (
        "0000000000001000 <_ZN6visops12_GLOBAL__N_19gemm_tileEv>:",
        "    1000:\tvfmadd231ps %zmm0,%zmm1,%zmm2",
        "0000000000001010 <_ZN6visops12_GLOBAL__N_111warp_kernelEv>:",
        "    1010:\tvmulps %zmm0,%zmm1,%zmm2",
        "    1016:\tvfmaddsub213ps %zmm0,%zmm1,%zmm2",
    )
    assert contracted("\n".join(lines)) == {
        ("_ZN6visops12_GLOBAL__N_19gemm_tileEv", "vfmadd231ps"),
        ("_ZN6visops12_GLOBAL__N_111warp_kernelEv", "vfmaddsub213ps"),
    }


@pytest.mark.parametrize("isa", ["default", "avx2", "avx512"])
def test_isa_objects_define_nothing_others_can_see(isa: str) -> None:
    """A function shared between objects could be taken from the AVX-512 one on every CPU."""
    objects = sorted((ROOT / "build" / "ninja" / isa).rglob("*.o"))
    if not objects:
        pytest.skip("the build tree is not there")
    for file in objects:
        command = [program("nm"), "--extern-only", "--defined-only", str(file)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        assert run.stdout == "", f"{file} defines symbols with external linkage"


@pytest.mark.skipif(sys.platform != "linux", reason="ELF")
def test_modules_hold_no_path_of_the_build_machine() -> None:
    assert len(modules()) == 2
    for module in modules():
        command = [program("readelf"), "--dynamic", str(module)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "NEEDED" in run.stdout
        assert "RPATH" not in run.stdout
        assert "RUNPATH" not in run.stdout


# An editable install would answer for the modules that the copy lacks.
IMPORT_COPY = """
import sys
sys.meta_path = [f for f in sys.meta_path if not f.__module__.startswith("__editable__")]
import visops
"""


def import_copy(folder: Path) -> str:
    """Import the copy of the package in `folder` in a new process; return what it printed."""
    run = subprocess.run(
        [sys.executable, "-c", IMPORT_COPY],
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout + run.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the loader's message is that of Linux")
@pytest.mark.parametrize(
    ("module", "content", "message"),
    [
        ("_C", b"not a library, but long enough to be read as one" * 4, "invalid ELF header"),
        ("_numpy", b"", "file too short"),
        ("_C", None, "No module named 'visops._C'"),
    ],
)
def test_broken_extension(tmp_path: Path, module: str, content: bytes | None, message: str) -> None:
    shutil.copytree(PACKAGE, tmp_path / "visops", ignore=shutil.ignore_patterns("__pycache__"))
    (file,) = [path for path in (tmp_path / "visops").glob(f"{module}.*") if path.suffix == ".so"]
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    printed = import_copy(tmp_path)
    assert f"ImportError: visops.{module} could not be loaded: " in printed
    assert message in printed
    assert f"against torch {visops.build_info()['torch_built']}" in printed
    assert f"the torch found is {torch.__version__}" in printed


def test_never_built(tmp_path: Path) -> None:
    patterns = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd", "_build.py")
    shutil.copytree(PACKAGE, tmp_path / "visops", ignore=patterns)
    assert "visops was never built here" in import_copy(tmp_path)


def test_collect_env_works_without_visops(tmp_path: Path) -> None:
    (tmp_path / "visops.py").write_text("raise ImportError('broken on purpose')\n")
    run = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "collect_env.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "visops: ImportError: broken on purpose" in run.stdout
    assert f"torch: {torch.__version__}" in run.stdout


def test_sanitizers_are_named_as_compilers_name_them() -> None:
    names = build_sanitizers.sanitizers({"VISOPS_SANITIZE": "address,undefined"})
    assert "-fsanitize=address,undefined" in build_sanitizers.compile_flags(names)
    # What is found must end the process, or nobody would see it.
    assert "-fno-sanitize-recover=all" in build_sanitizers.compile_flags(names)
    assert build_sanitizers.link_flags(names) == ["-fsanitize=address,undefined"]
    assert build_sanitizers.build_folder(names) == "ninja-address-undefined"
    for value, message in (("memory", "is not known"), ("address,thread", "can't hold both")):
        with pytest.raises(SystemExit, match=f"^visops: VISOPS_SANITIZE.* {message}"):
            build_sanitizers.sanitizers({"VISOPS_SANITIZE": value})


def test_usual_builds_have_no_sanitizers() -> None:
    assert build_sanitizers.sanitizers({}) == []
    assert build_sanitizers.build_folder([]) == "ninja"
    assert build_sanitizers.compile_flags([]) == build_sanitizers.link_flags([]) == []
