"""Builds for other systems than this one: VISOPS_TARGET, and what only they take."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pybind11", reason="the build's own packages are not installed")
import build_toolchain as build
from cross.targets import (
    FUNCTIONS,
    TARGETS,
    Target,
    compiler,
    python_config,
    wanted_target,
    write_import_library,
)

pytestmark = pytest.mark.skipif(os.name == "nt", reason="compilers are played by shell scripts")

ROOT = Path(__file__).resolve().parents[2]
FLAGS_OF_X86 = ("-mmemcpy-strategy", "-mmemset-strategy", "-mavx", "-mf16c", "-mprefer")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CXX", "VISOPS_TARGET", "VISOPS_ISA", "VISOPS_PYTHONS"):
        monkeypatch.delenv(name, raising=False)


def compiler_of(folder: Path, machine: str) -> list[str]:
    """A GCC for a machine, which knows its macros only."""
    script = folder / f"{machine}-c++"
    script.write_text(f'#!/bin/sh\nprintf "#define __{machine}__ 1\\n#define __GNUC__ 12\\n"\n')
    script.chmod(0o755)
    return [str(script)]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_compiler_says_what_it_builds_for(machine: str, tmp_path: Path) -> None:
    assert build.machine_of(compiler_of(tmp_path, machine)) == machine


def test_targets_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, target in TARGETS.items():
        monkeypatch.setenv("VISOPS_TARGET", name)
        assert wanted_target() == target
    monkeypatch.setenv("VISOPS_TARGET", "arm64")
    message = "VISOPS_TARGET=arm64 is not known; it can be linux-x86_64, .* or windows-x86_64$"
    with pytest.raises(SystemExit, match=message):
        wanted_target()


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


def in_a_build(code: str, **variables: str) -> str:
    """Run code beside setup.py's modules; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts"), **variables}
    environment["PYTHONPATH"] += os.pathsep + os.pathsep.join(sys.path)
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    return run.stdout + run.stderr


def test_objects_of_another_compiler_lie_apart() -> None:
    code = "import build_ninja; print(build_ninja.BUILD)"
    assert in_a_build(code).strip() == "build/ninja"
    assert in_a_build(code, VISOPS_TARGET="linux-x86_64").strip() == "build/ninja"
    assert in_a_build(code, VISOPS_TARGET="macos-arm64").strip() == "build/ninja-macos-arm64"


def test_no_other_systems_libraries_in_place() -> None:
    code = "import sys; sys.argv[1:] = ['--quiet', 'build_ext', '--inplace']; import setup"
    printed = in_a_build(code, VISOPS_TARGET="windows-x86_64", VISOPS_CUDA="0")
    assert "libraries for windows-x86_64 would replace this machine's; use --build-lib" in printed


def test_other_wheels_have_no_cuda_kernels() -> None:
    code = "import build_toolchain as b; print(b.find_cuda('13.0'))"
    printed = in_a_build(code, VISOPS_TARGET="macos-arm64", VISOPS_CUDA="")
    assert "without CUDA kernels: of the wheels, only that for Linux x86-64 has them" in printed


def test_functions_that_objects_ask_for() -> None:
    elf, coff = b"\0aoti_torch_check\0torch_x\0", b"\0__imp__Py_NoneStruct\0__imp_PyList_New\0"
    assert FUNCTIONS.findall(elf) == [b"aoti_torch_check", b"torch_x"]
    assert FUNCTIONS.findall(coff) == [b"_Py_NoneStruct", b"PyList_New"]


SIZES = """#include <Python.h>
template <unsigned long... sizes> struct Sizes;
Sizes<sizeof(PyObject), sizeof(PyTypeObject), sizeof(Py_buffer), sizeof(PyVarObject),
      sizeof(PyModuleDef), sizeof(Py_tss_t), sizeof(wchar_t), sizeof(long)> shown;
"""


def sizes_of(include: str, command: list[str]) -> list[str]:
    """Sizes of Python's structures, which the compiler names in an error."""
    run = subprocess.run(
        [*command, "-fsyntax-only", "-I", include, "-x", "c++", "-"],
        input=SIZES,
        capture_output=True,
        text=True,
    )
    return re.findall(r"Sizes<([\d, ]+)>", run.stderr.replace("UL", ""))[:1]


def headers(folder: Path, target: Target) -> str:
    """Python's headers with our own pyconfig.h."""
    include = sysconfig.get_path("include")
    shutil.copytree(include, folder, ignore=shutil.ignore_patterns("pyconfig.h"))
    (folder / "pyconfig.h").write_text(python_config(target, False))
    return str(folder)


def test_pythons_structures_are_the_same_by_our_configuration(tmp_path: Path) -> None:
    command = build.find_compiler()
    real = sizes_of(sysconfig.get_path("include"), command)
    if not real:
        pytest.skip("Python's headers are not installed")
    own = headers(tmp_path / "linux", TARGETS["linux-aarch64"])
    assert sizes_of(own, command) == real
    assert sizes_of(headers(tmp_path / "windows", TARGETS["windows-x86_64"]), command) != real


@pytest.fixture
def zig() -> None:
    pytest.importorskip("ziglang", reason="make wheels installs it")


@pytest.mark.usefixtures("zig")
def test_pythons_structures_on_windows(tmp_path: Path) -> None:
    target = TARGETS["windows-x86_64"]
    own = headers(tmp_path / "windows", target)
    (found,) = sizes_of(own, compiler(target))
    assert found.split(", ")[:1] + found.split(", ")[-2:] == ["16", "2", "4"]


@pytest.mark.usefixtures("zig")
@pytest.mark.parametrize("name", ["linux-aarch64", "windows-x86_64"])
def test_libraries_are_linked_with_names_alone(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    source = tmp_path / "some.cpp"
    source.write_text('extern "C" int torch_some(); int own() { return torch_some(); }')
    made = tmp_path / "some.o"
    subprocess.run([*compiler(target), "-c", source, "-o", made], check=True)
    imported = tmp_path / ("torch_cpu.dll.a" if target.system == "windows" else "libtorch_cpu.so")
    write_import_library(target, imported, [made])
    library = tmp_path / target.library.format("some")
    link = [*compiler(target), "-shared", str(made), "-Wl,--no-undefined", "-o", str(library)]
    assert subprocess.run(link, capture_output=True).returncode != 0
    subprocess.run([*link, str(imported)], check=True)
    assert imported.name.removesuffix(".a").encode() in library.read_bytes()
