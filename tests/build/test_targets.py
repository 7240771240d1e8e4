"""Builds for another machine than this one: VISOPS_TARGET, and compilers that say what they are."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pybind11", reason="the build's own packages are not installed")
import build_toolchain as build

pytestmark = pytest.mark.skipif(build.WINDOWS, reason="compilers are played by shell scripts")

ROOT = Path(__file__).resolve().parents[2]
FLAGS_OF_X86 = ("-mmemcpy-strategy", "-mmemset-strategy", "-mavx", "-mf16c", "-mprefer")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CXX", "VISOPS_TARGET", "VISOPS_ISA", "VISOPS_PYTHONS"):
        monkeypatch.delenv(name, raising=False)


def compiler_of(folder: Path, machine: str) -> list[str]:
    """A GCC for a machine, which knows its macros only."""
    macro = {name: macro for macro, name in build.MACHINES.items()}[machine]
    script = folder / f"{machine}-c++"
    script.write_text(f'#!/bin/sh\nprintf "#define {macro} 1\\n#define __GNUC__ 12\\n"\n')
    script.chmod(0o755)
    return [str(script)]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_compiler_says_what_it_builds_for(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = compiler_of(tmp_path, machine)
    assert build.target(compiler) == machine
    monkeypatch.setenv("CXX", compiler[0])
    assert build.cross_target() == (None if machine == build.HOST else machine)


def test_a_compiler_for_another_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISOPS_TARGET", "aarch64")
    message = r"VISOPS_TARGET=aarch64, but .*x86_64-c\+\+ compiles for x86_64"
    with pytest.raises(SystemExit, match=message):
        build.target(compiler_of(tmp_path, "x86_64"))


def test_unknown_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISOPS_TARGET", "arm64")
    with pytest.raises(SystemExit, match="VISOPS_TARGET=arm64 is not known; it can be x86_64 or"):
        build.find_compiler()


def test_the_target_chooses_a_cross_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "x86_64" if build.HOST == "aarch64" else "aarch64"
    monkeypatch.setenv("VISOPS_TARGET", other)
    monkeypatch.setenv("PATH", str(tmp_path))
    name = f"{other}-linux-gnu-g++"
    with pytest.raises(SystemExit, match=rf"no C\+\+ compiler: looked for {re.escape(name)}"):
        build.find_compiler()
    Path(compiler_of(tmp_path, other)[0]).rename(tmp_path / name)
    assert build.find_compiler() == [name]
    assert build.cross_target() == other


@pytest.mark.parametrize("value", ["", "default", "native"])
def test_arm_has_one_instruction_set(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISOPS_ISA", value)
    assert list(build.isa_levels(compiler_of(tmp_path, "aarch64"))) == ["default"]


@pytest.mark.parametrize("value", ["avx2", "default,avx2", "neon"])
def test_instruction_sets_that_arm_lacks(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISOPS_ISA", value)
    message = f"VISOPS_ISA={value} is not known; it can be native, or hold default$"
    with pytest.raises(SystemExit, match=message):
        build.isa_levels(compiler_of(tmp_path, "aarch64"))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_flags_of_x86_go_to_compilers_for_it_only(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from build_ninja import cpu_kernels

    given: list[str] = []

    class Compiled:
        compiler = compiler_of(tmp_path, machine)

        def objects(self, folder: str, files: list[Path], flags: list[str]) -> list[Path]:
            given.extend(flags)
            return files

    compiled: Any = Compiled()
    cpu_kernels(compiled)
    found = {flag for flag in given if flag.startswith(FLAGS_OF_X86)}
    assert bool(found) == (machine == "x86_64")


def test_a_cross_build_asks_for_the_targets_python(tmp_path: Path) -> None:
    """Objects go to a folder of their own, and libraries are not put over this machine's."""
    other = "x86_64" if build.HOST == "aarch64" else "aarch64"
    compiler = compiler_of(tmp_path, other)[0]
    environment = {"CXX": compiler, "PATH": "/usr/bin:/bin", "VISOPS_CUDA": "0"}
    environment["PYTHONPATH"] = str(ROOT / "scripts")
    code = "import build_ninja, build_extensions as b; print(build_ninja.BUILD); b.pythons()"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert run.stdout.strip() == f"build/ninja-{other}"
    message = f"visops: the compiler builds for {other}: set VISOPS_PYTHONS to a Python of that"
    assert run.stderr.startswith(message)
