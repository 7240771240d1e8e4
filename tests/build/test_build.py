"""The build: what it reports, what it must not contain, how it fails; tests of wheels."""

import ast
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import build_sanitizers
import fresh
import install_extras
import pytest
import torch
import visops
import visops.__main__ as report
from visops._loader import LIBRARY, REINSTALL

from build.copies import (
    ONLY_THE_COPY,
    PACKAGE,
    copy_package,
    import_copy,
    linux,
    needed,
    program,
    readelf,
)

ROOT = Path(__file__).resolve().parents[2]


def libraries() -> list[Path]:
    return sorted(PACKAGE.glob("lib/*")) + sorted(PACKAGE.glob("_native.*[!i]"))


def test_version_is_that_of_pyproject() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    assert visops.__version__ == version
    assert visops.build_info()["version"] == version


# Kernels of one side: torch's operators, or cuBLAS, do the work on the other; of pixels, the
# CUDA kernels of adjust_pixels.
ON_CPU = {
    *("deform_conv2d", "deform_conv2d_backward_weight"),
    *("filter", "hsv", "jpeg", "lab", "median", "noise", "pixel_operation", "shade"),
}

ON_CUDA = {"deform_conv2d_rows", "nms_limit", "nms_rank", "nms_rows", "send_numbers"}


def test_build_info() -> None:
    info = visops.build_info()
    assert set(info) == {
        *("version", "torch_built", "torch_abi_target", "compiler"),
        *("cuda_built", "cuda_archs", "cuda_error", "cpu", "cpu_available", "kernels"),
        *("jpeg", "jpeg_error", "native_error"),
    }
    assert info["torch_abi_target"] == "2.11"
    assert info["compiler"].split()[0] in ("GCC", "Clang")
    assert info["cpu_available"][0] == "default"
    assert info["cpu"] in info["cpu_available"]
    assert bool(info["cuda_built"]) == bool(info["cuda_archs"])
    assert {"affine", "affine_backward_image", "affine_backward_matrix"} <= set(info["kernels"])
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    assert set(info["kernels"]) >= ON_CPU | ON_CUDA
    for name, slots in info["kernels"].items():
        if name not in ON_CUDA:
            assert {"default", *(("avx2",) if x86 else ())} <= set(slots)  # no part of a build
        if name not in ON_CPU:
            assert ("cuda" in slots) == (info["cuda_error"] is None)


STUB = re.compile(r" [uVS] _{1,2}ZN6visops\d+\w+_stubE$")  # an inline variable's data


@pytest.mark.parametrize("isa", ["default", "avx2", "avx512"])
def test_isa_objects_define_nothing_others_can_see(isa: str) -> None:
    """A function shared between objects could be taken from the AVX-512 one on every CPU.

    Stubs may be: constants without code, of which any object's will do.
    """
    objects = sorted((ROOT / "build" / "ninja" / isa).rglob("*.o"))
    if not objects:
        pytest.skip("the build tree is not there")
    command = [program("nm"), "--extern-only", "--defined-only", "--print-file-name"]
    run = subprocess.run([*command, *map(str, objects)], capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    assert lines  # the stubs
    assert [line for line in lines if not STUB.search(line)] == []


@linux
def test_libraries_hold_no_path_of_the_build_machine() -> None:
    assert len(libraries()) >= 2
    for library in libraries():
        assert "RPATH" not in readelf("--dynamic", library)
        assert "RUNPATH" not in readelf("--dynamic", library)


@linux
def test_the_library_needs_neither_python_nor_cuda() -> None:
    """A C++ program loads it, and it loads beside a torch without CUDA."""
    assert "libtorch_cpu.so" in needed(LIBRARY)
    assert not [name for name in needed(LIBRARY) if "cuda" in name or "python" in name]
    symbols = readelf("--dyn-syms", LIBRARY)
    assert "visops_refuse_cuda" in symbols  # else this looks at nothing
    undefined = re.findall(r"\bUND (\S+)", symbols)
    assert undefined
    assert not [name for name in undefined if name.startswith(("Py", "_Py", "cuda"))]


@linux
def test_libraries_keep_to_the_stable_abi() -> None:
    """torch-abi-audit reads their symbols, and knows with which torch each came."""
    audit = pytest.importorskip("torch_abi_audit", reason="torch-abi-audit is not installed")
    report = audit.inspect_package(str(PACKAGE))
    assert len(report.bundled_libs) >= 1
    assert report.torch_verdict == "torch-stable"
    assert report.min_torch_version == "2.11.0"


@linux
def test_libraries_use_nothing_of_python() -> None:
    """abi3audit knows CPython's symbols, and which of them are stable: here are none at all."""
    pytest.importorskip("abi3audit", reason="abi3audit is not installed")
    checked = [library for library in libraries() if not library.name.startswith("_native")]
    command = [sys.executable, "-m", "abi3audit", "--strict", "--report"]
    command += ["--assume-minimum-abi3", "3.11", *map(str, checked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(json.loads(done.stdout)["specs"]) == len(checked) >= 1
    module = str(next(PACKAGE.glob("_native.*[!i]")))  # which is compiled for one Python
    assert subprocess.run([*command, module], capture_output=True, check=False).returncode == 1


@linux
def test_the_cuda_library_exports_one_symbol() -> None:
    """Its stubs are copies of the main library's, and must not answer for them."""
    library = LIBRARY.with_name("libvisops_cuda.so")
    if not library.exists():
        pytest.skip("built without CUDA")
    exported = re.findall(r"(?:GLOBAL|WEAK)\s+DEFAULT\s+\d+ (\S+)", readelf("--dyn-syms", library))
    assert exported == ["visops_cuda_library"]
    assert "libtorch_cuda.so" in needed(library)


@linux
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a library, but long enough to be read as one" * 4, "invalid ELF header"),
        (b"", "file too short"),
        (None, "libvisops.so is not there"),
    ],
)
def test_broken_library(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = copy_package(tmp_path, "libvisops.so") / "lib" / "libvisops.so"
    if content is not None:
        file.write_bytes(content)
    printed = import_copy(tmp_path)
    # In one line: torch keeps the loader's words to the cause of its own error.
    assert re.search(f"ImportError: visops' libvisops.so could not be loaded: .*{message}", printed)
    assert f"against torch {visops.build_info()['torch_built']}" in printed
    assert f"the torch found is {torch.__version__}" in printed
    assert REINSTALL in printed


@linux
def test_truncated_library(tmp_path: Path) -> None:
    file = copy_package(tmp_path, "libvisops.so") / "lib" / "libvisops.so"
    file.write_bytes(LIBRARY.read_bytes()[:100_000])
    printed = import_copy(tmp_path)
    assert f"could not be loaded: {file} is truncated: it has 100000 bytes" in printed
    assert REINSTALL in printed


@linux
@pytest.mark.parametrize(
    ("size", "message"), [(0, "file too short"), (100_000, "is truncated: it has 100000 bytes")]
)
def test_broken_array_module(tmp_path: Path, size: int, message: str) -> None:
    """It is no module for another Python: arrays must not go through tensors unnoticed."""
    (file,) = copy_package(tmp_path).glob("_native.cpython*")
    file.write_bytes(file.read_bytes()[:size])
    printed = import_copy(tmp_path)
    assert f"ImportError: visops' {file.name} could not be loaded: " in printed
    assert message in printed
    assert REINSTALL in printed


def test_old_torch(tmp_path: Path) -> None:
    copy_package(tmp_path, "*.so")
    printed = import_copy(tmp_path, "import torch; torch.__version__ = '2.10.3+cpu'")
    message = "visops needs torch 2.11 or newer, and this is torch 2.10.3+cpu; run: pip install"
    assert message in printed


@linux
def test_two_copies_on_the_path(tmp_path: Path) -> None:
    copy_package(tmp_path)
    printed = import_copy(tmp_path, f"import torch; torch.ops.load_library({str(LIBRARY)!r})")
    assert "another copy of visops is loaded in this process already" in printed
    assert "keep one of them on sys.path" in printed


def test_another_python(tmp_path: Path) -> None:
    """Nothing but the name tells: the file of this Python is that of another one here."""
    copy_package(tmp_path)
    (module,) = tmp_path.rglob("_native.cpython*")
    module.rename(module.with_name("_native.cpython-399-x86_64-linux-gnu.so"))
    printed = import_copy(tmp_path, then="visops.transforms")
    assert (
        printed.strip()
        .splitlines()[-1]
        .startswith(
            "ImportError: visops.transforms: chains, arrays and run lengths need visops._native, "
            "which this copy has for cpython-399-x86_64-linux-gnu, not for cpython-3"
        )
    )


def cuda_error(folder: Path, before: str = "") -> str:
    """What build_info() says of the CUDA kernels of a copy."""
    code = "print(visops.build_info()['cuda_error'])"
    return import_copy(folder, before, then=code).strip()


@linux
def test_missing_cuda_library(tmp_path: Path) -> None:
    copy_package(tmp_path, "libvisops_cuda.so")
    assert "this copy of visops was built without CUDA (" in cuda_error(tmp_path)


@linux
def test_torch_without_cuda(tmp_path: Path) -> None:
    copy_package(tmp_path)
    error = cuda_error(tmp_path, "import torch; torch.version.cuda = None")
    assert error == "this torch was built without CUDA"


@linux
@pytest.mark.parametrize(
    ("size", "message"), [(0, "file too short"), (100_000, "is truncated: it has 100000 bytes")]
)
def test_broken_cuda_library(tmp_path: Path, size: int, message: str) -> None:
    library = copy_package(tmp_path) / "lib" / "libvisops_cuda.so"
    library.write_bytes(LIBRARY.read_bytes()[:size])
    error = cuda_error(tmp_path)
    assert error.startswith("the CUDA kernels could not be loaded: ")
    assert message in error
    assert error.endswith(f"; {REINSTALL}")


@linux
def test_another_cuda_major(tmp_path: Path) -> None:
    if visops.build_info()["cuda_built"] is None:
        pytest.skip("built without CUDA")
    runtime = tmp_path / "libcudart.so.9"
    command = [program("c++"), "-shared", "-x", "c++", "/dev/null", "-o", str(runtime)]
    subprocess.run(command, check=True)
    copy_package(tmp_path)
    # Loaded before torch loads its own.
    code = f"import ctypes; ctypes.CDLL({str(runtime)!r})\n{ONLY_THE_COPY}\nimport visops\n"
    command = [sys.executable, "-c", f"{code}print(visops.build_info()['cuda_error'])"]
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
    error = run.stdout.strip()
    assert error.startswith("the CUDA kernels are built for CUDA ")
    index = f"https://download.pytorch.org/whl/cu{(torch.version.cuda or '').replace('.', '')}"
    assert "and torch uses CUDA 9; run: pip install --force-reinstall torch" in error
    assert error.endswith(f" --index-url {index}, or rebuild visops")


def compile_other_build(library: Path, entry: str) -> None:
    """Make a library that hands over the kernels of another build."""
    source = (
        'static const struct { const char* build; } library = {"0.0.1-0123456789ab"};\n'
        f'extern "C" const void* {entry}() {{ return &library; }}\n'
    )
    command = [program("c++"), "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)]
    subprocess.run(command, input=source, text=True, check=True)


@linux
def test_cuda_library_of_another_build(tmp_path: Path) -> None:
    library = copy_package(tmp_path, "libvisops_cuda.so") / "lib" / "libvisops_cuda.so"
    compile_other_build(library, "visops_cuda_library")
    reason = f"is of another build than the library beside it; {REINSTALL}"
    assert reason in cuda_error(tmp_path)


def test_never_built(tmp_path: Path) -> None:
    copy_package(tmp_path, "*.so", "*.pyd", "_build.py")
    assert "visops was never built here" in import_copy(tmp_path)


def test_the_report_takes_no_arguments() -> None:
    """`python -m visops infer` printed the report as if nothing had been asked for."""
    command = [sys.executable, str(PACKAGE / "__main__.py")]
    run = subprocess.run([*command, "infer"], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "unrecognized arguments: infer" in run.stderr
    run = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert "python -m visops.infer" in run.stdout


def test_the_report_works_without_visops(tmp_path: Path) -> None:
    (tmp_path / "visops.py").write_text("raise ImportError('broken on purpose')\n")
    program = f"import runpy; runpy.run_path({str(PACKAGE / '__main__.py')!r}, None, '__main__')"
    run = fresh.run(program, check=True, PYTHONPATH=str(tmp_path))
    assert "visops: ImportError: broken on purpose" in run.stdout
    assert f"torch: {torch.__version__}" in run.stdout


def test_the_report_leaves_out_what_has_no_kernel_here() -> None:
    """It said "kernels for : deform_conv2d_rows" where the library has no CUDA kernels."""
    found = {"affine": ["default"], "deform_conv2d_rows": [], "nms": ["default"]}
    assert report.kernels(found) == [("default", "2 operations")]


def test_the_report_imports_no_peer() -> None:
    """It took eight seconds, of which torchvision and kornia took six."""
    peers = {"torchvision", "kornia", "cv2", "setuptools", "sympy"}
    script = (
        "import runpy, sys\n"
        "runpy.run_module('visops', run_name='__main__')\n"
        f"print('imported:', sorted(sys.modules.keys() & {peers}))"
    )
    run = fresh.run(script, check=True)
    assert "torchvision: not" not in run.stdout
    assert run.stdout.splitlines()[-1] == "imported: []"


def test_an_extra_brings_those_it_refers_to() -> None:
    """The Makefile, pip and cibuildwheel install the same lists."""
    found = install_extras.requirements("dev")
    for extra in ("demo", "test", "wheels"):
        assert set(install_extras.requirements(extra)) < set(found)
    assert len(set(found)) == len(found)
    assert not [line for line in found if line.startswith("visops")]


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


@linux
def test_array_module_of_another_build(tmp_path: Path) -> None:
    """`_native` takes its kernels from the library beside it, and must not take wrong ones."""
    module = Path(next(PACKAGE.glob("_native.cpython*")))
    shutil.copy(module, tmp_path)
    (tmp_path / "lib").mkdir()
    library = tmp_path / "lib" / "libvisops.so"

    def printed() -> str:
        return fresh.run("import _native", cwd=tmp_path).stderr

    assert f"ImportError: visops: {library}: cannot open shared object file" in printed()
    compile_other_build(library, "visops_cpu_library")
    assert f"_native is of another build than {library}; {REINSTALL}" in printed()


def test_the_report_groups_kernels() -> None:
    """One line had the kinds of each of 80 kernels."""
    from visops.__main__ import kernels

    usual = ["default", "avx2"]
    found = {"nms": usual, "jpeg": ["default"], "affine": usual, "lab": ["default"]}
    assert kernels({**found, "remap": usual}) == [
        ("default, avx2", "3 operations"),
        ("default", "jpeg, lab"),
    ]


wheels = pytest.importorskip("wheels", reason="zopfli is missing")
TESTS = Path(__file__).resolve().parents[1]
SCRIPTS = {path.stem for path in (TESTS.parent / "scripts").iterdir()}


def imported(file: Path) -> Iterator[str]:
    """Modules that a file imports, without their parents' other modules."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def file_of(module: str) -> Path | None:
    """A file of the tests, by the name that tests import it by."""
    path = TESTS / module.replace(".", "/")
    found = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
    return found[0] if found else None


def needs(files: list[Path]) -> Iterator[tuple[Path, str]]:
    """Every import of these files and of the tests' own modules that they use."""
    seen: set[Path] = set()
    while files:
        file = files.pop()
        if file in seen:
            continue
        seen.add(file)
        for module in imported(file):
            yield file, module
            files += [found] if (found := file_of(module)) else []


def test_tests_of_wheels_import_no_script() -> None:
    parts = [TESTS / part for part in wheels.TESTS]
    assert all(part.exists() for part in parts)
    files = [file for part in parts for file in ([part] if part.is_file() else part.rglob("*.py"))]
    uses = [
        f"{file.relative_to(TESTS)} imports {module}"
        for file, module in needs([TESTS / "conftest.py", *files])
        if module.split(".")[0] in SCRIPTS
    ]
    assert not uses


def test_the_wheel_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "DIST", tmp_path)
    monkeypatch.setattr(wheels, "OWN", "linux-x86_64")
    for tag in ("manylinux_2_28_aarch64", "win_amd64"):
        (tmp_path / f"visops-0.1.0-py3-none-{tag}.whl").touch()
    with pytest.raises(SystemExit, match=r"0 wheels for linux-x86_64; run"):
        wheels.built_wheel()
    own = tmp_path / "visops-0.1.0-py3-none-manylinux_2_28_x86_64.whl"
    own.touch()
    assert wheels.built_wheel() == own
