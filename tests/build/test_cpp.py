"""For C++: the header of the operators, CMake's configuration, loading without Python."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import visops
from generate_cpp_header import HEADER, comment, header, literal
from visops._loader import LIBRARY
from visops._torch.declaring import DECLARED


def test_the_header_is_what_the_script_writes() -> None:
    assert HEADER.read_text() == header(), "run: python scripts/generate_cpp_header.py"


def test_parts_of_operators_have_no_function() -> None:
    found = set(re.findall(r"^inline [\w:<>, ]+? (\w+)\(", HEADER.read_text(), re.MULTILINE))
    parts = [n for n in DECLARED if re.search(r"_(out|at|fold|backward\w*)$", n)]
    private = {*parts, "add_grey_means", "adjust_pixels", "filter_separable"}
    assert found == DECLARED.keys() - private


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "std::nullopt"),
        (6, "6"),
        (True, "true"),
        ([], "{}"),
        ([0.0, 1e-07], "{0.0, 1e-07}"),
        ("iou", '"iou"'),
    ],
)
def test_defaults(value: object, expected: str) -> None:
    assert literal(value) == expected


def test_comments_have_no_markup() -> None:
    assert ":func:" in (visops.paste_rois.__doc__ or "").splitlines()[0]
    assert comment("paste_rois").endswith("the way back from crop_rois.")


def find_visops(folder: Path, package: Path) -> subprocess.CompletedProcess[str]:
    """Let CMake look for a package."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    cmake = shutil.which("cmake", path=path)
    if cmake is None:
        pytest.skip("cmake is not installed; pip install cmake")
    lines = ("cmake_minimum_required(VERSION 3.18)", "project(test LANGUAGES NONE)")
    text = "\n".join([*lines, "find_package(visops 0.1 REQUIRED)"])
    (folder / "CMakeLists.txt").write_text(text)
    command = [cmake, "-S", str(folder), "-B", str(folder / "build"), "-G", "Ninja"]
    command += [f"-DCMAKE_PREFIX_PATH={package}/share/cmake"]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PATH": path}, check=False
    )


def package_of_files(folder: Path, *files: str) -> Path:
    """Make a package that has CMake's configuration and empty files, but no torch beside it."""
    package = folder / "visops"
    shutil.copytree(Path(visops.cmake_prefix_path), package / "share" / "cmake")
    (package / "_build.py").write_text('version = "0.1.0"\n')
    for file in files:
        (package / file).parent.mkdir(parents=True)
        (package / file).touch()
    return package


def test_cmake_finds_torch_beside_the_package(tmp_path: Path) -> None:
    package = package_of_files(tmp_path, "lib/libvisops.so")
    (tmp_path / "torch").symlink_to(Path(torch.__file__).parent)
    done = find_visops(tmp_path, package)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "lib/libvisops.so is not there: run `make build` in visops' source folder"),
        (["lib/libvisops.so"], "add torch.utils.cmake_prefix_path to CMAKE_PREFIX_PATH"),
    ],
)
def test_cmake_says_what_is_missing(tmp_path: Path, files: list[str], message: str) -> None:
    done = find_visops(tmp_path, package_of_files(tmp_path, *files))
    assert done.returncode == 1
    assert message in " ".join(done.stderr.split())


def test_cmake_compares_versions(tmp_path: Path) -> None:
    package = package_of_files(tmp_path, "lib/libvisops.so")
    (package / "_build.py").write_text('version = "0.0.9"\n')
    done = find_visops(tmp_path, package)
    assert done.returncode == 1
    assert "version: 0.0.9" in " ".join(done.stderr.split())


LOADS = """
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int count, char** libraries) {
  for (int i = 1; i < count; ++i) {
    if (!dlopen(libraries[i], RTLD_NOW | RTLD_GLOBAL)) return puts(dlerror()), 1;
  }
  char line[4096];
  for (FILE* maps = fopen("/proc/self/maps", "r"); fgets(line, sizeof line, maps);) {
    const char* path = strchr(line, '/');
    if (path) fputs(path, stdout);
  }
}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_the_library_loads_beside_libtorch_cpu_alone(tmp_path: Path) -> None:
    """With every symbol bound at once, in a process without Python and without libtorch_cuda."""
    (tmp_path / "loads.c").write_text(LOADS)
    program = tmp_path / "loads"
    subprocess.run(["cc", tmp_path / "loads.c", "-o", program, "-ldl"], check=True)
    torch_cpu = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    done = subprocess.run([program, torch_cpu, LIBRARY], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    loaded = {Path(line).name for line in done.stdout.splitlines()}
    assert {"libvisops.so", "libtorch_cpu.so"} <= loaded
    others = ("libtorch_cuda", "libtorch_python", "libpython", "libvisops_cuda")
    assert not {name for name in loaded if name.startswith(others)}
