"""Tests the build for Windows in Wine: the bits of every operator, of chains and of files.

    python scripts/cross windows

Steps:

tools   whether Wine is here, before minutes of compiling
build   the cross build, with warnings as errors
record  the calls of tests/operators, of the fuzzer, of chains and of JPEG files, made here
wine    the operators' calls by replay.cpp, beside torch's own DLL: plain and AVX2 kernels, one
        thread and four
python  all of them by Python for Windows: NOTE [ A Python for Windows ] in wine.py

Wine takes from Linux what a program asks of Windows, so this says nothing about Windows' own
kernel. Its C library is Wine's too.
"""

import ast
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from installable.calls_file import write_calls

from cross.build import compile_for
from cross.here import ROOT, TORCHES, download_wheels, fail, here, run, unpack_libraries
from cross.targets import TARGETS, compiler, write_import_library
from cross.wine import HOME, WHEELS, python_there, run_there, wine

TARGET = TARGETS["windows-x86_64"]
RECORDS = Path(__file__).with_name("records.py")
RUNTIME = "msvc-runtime"  # C++ libraries that torch wants Windows to have
MODULES = ("cases", "random")  # of records.py: those of operators
OF_PYTHON = ("chains", "files")
CPUS = ("default", "avx2")
THREADS = (1, 4)


def unpack_torch(version: str) -> Path:
    """Return a folder with torch's DLLs and those that they need."""
    folder = HOME / f"torch-{version}"
    if not folder.exists():
        wheels = WHEELS / version
        download_wheels(wheels, ["win_amd64"], [f"torch=={version}", RUNTIME])
        found = [*wheels.glob(f"torch-{version}*"), *wheels.glob("msvc_runtime*")]
        unpack_libraries(folder, found, lambda name: name.endswith(".dll"))
    return folder


def build_program() -> Path:
    """Return replay.exe."""
    include = Path(torch.__file__).with_name("include")
    made, library = HOME / "replay.o", HOME / "torch_cpu.dll.a"
    flags = ["-std=c++17", "-O1", "-DTORCH_TARGET_VERSION=0x020b000000000000"]
    source = ROOT / "tests" / "installable" / "replay.cpp"
    run(*compiler(TARGET), *flags, "-isystem", include, "-c", source, "-o", made)
    write_import_library(TARGET, library, [made])
    program = HOME / "replay.exe"
    run(*compiler(TARGET), made, library, "-o", program)
    return program


def replay(program: Path, torch_folder: Path, library: Path, calls: Path, cpu: str, n: int) -> str:
    """Make the calls; stop if a result differs."""
    # Windows looks for libraries beside the program.
    for file in (program, library):
        shutil.copy(file, torch_folder)
    variables = {"VISOPS_CPU": cpu, "OMP_NUM_THREADS": str(n)}
    words = (program.name, library.name, f"Z:{calls}")
    done = run_there(*words, folder=torch_folder, **variables)  # torch prints refusals on stderr
    before, _, total = done.stdout.rpartition("TOTAL")
    if done.returncode or not total:
        fail(f"{before}{total}failed: {cpu} kernels, {n} threads, {torch_folder.name}")
    count = ast.literal_eval(total.strip())
    return (
        f"{torch_folder.name}, {cpu} kernels, {n} thread(s): {count['calls']:,} calls, "
        f"{count['tensors']:,} tensors: equal bits, {count['NaN payloads']} of them but for NaNs' "
        f"payloads; {count['refused']} refused, {count['words']} of them seen to be in equal words"
    )


def compare() -> str:
    """Make all recorded calls with each kind of kernels and number of threads."""
    library = HOME / "lib" / "visops" / "lib" / TARGET.library.format("visops")
    calls = HOME / "calls"
    left_out = write_calls(calls, [HOME / f"{name}.calls" for name in MODULES])
    if left_out:
        print(f"{left_out} calls are left out: only Python can make them")
    program = build_program()
    lines = []
    for packages in TORCHES:
        folder = unpack_torch(packages["torch"])
        for cpu in CPUS:
            for n in THREADS:
                lines.append(replay(program, folder, library, calls, cpu, n))
                print(lines[-1], flush=True)
    return f"{len(lines)} runs; the last: {lines[-1]}"


def compare_in_python() -> str:
    """Let Python say what it has there, and make all recorded calls."""
    lines = []
    for packages in TORCHES:
        version = packages["torch"]
        print(python_there("-m", "visops", torch=version))
        for cpu in CPUS:
            words = (RECORDS, "replay", HOME, *OF_PYTHON)
            printed = python_there(*words, torch=version, VISOPS_CPU=cpu)
            count = dict(re.findall(r"'([^']+)': (\d+)", printed.rpartition("TOTAL")[2]))
            lines.append(
                f"torch {version}, {cpu} kernels: {count['calls']} calls of chains and files, "
                f"{count['tensors']} tensors: equal bits; {count['refused']} refused in equal words"
            )
            print(lines[-1], flush=True)
    return f"{len(lines)} runs; the last: {lines[-1]}"


def steps() -> dict[str, Callable[[], object]]:
    """Return what is done, in order."""
    modules = (*MODULES, *OF_PYTHON)
    return {
        "tools": wine,
        "build": lambda: compile_for(TARGET),
        "record": lambda: run(*here(RECORDS, "record", HOME, *modules)).splitlines()[-1],
        "wine": compare,
        "python": compare_in_python,
    }
