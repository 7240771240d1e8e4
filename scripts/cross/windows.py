"""Tests the wheel for Windows in Wine: every operator's bits are Linux's.

    python scripts/cross windows

There is no Python for Windows on PyPI, and none is needed: replay.cpp makes the calls, beside
torch's own DLL. Wine takes from Linux what a program asks of Windows, so this says nothing about
Windows' own C library; no operator asks it for more than whole-number functions of floats.
"""

import ast
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import torch
from installable.calls_file import write_calls

from cross.build import compile_for
from cross.here import ROOT, TORCHES, download_wheels, fail, here, run, tool, unpack_libraries
from cross.targets import TARGETS, compiler, write_import_library

TARGET = TARGETS["windows-x86_64"]
HOME = ROOT / "build" / "cross" / TARGET.name
RUNTIME = "msvc-runtime"  # C++ libraries that torch wants Windows to have
MODULES = ("cases", "random")  # of records.py
CPUS = ("default", "avx2")
THREADS = (1, 4)


def unpack_torch(version: str) -> Path:
    """Return a folder with torch's DLLs and those that they need."""
    folder = HOME / f"torch-{version}"
    if not folder.exists():
        wheels = HOME / "wheels"
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
    variables = {
        "VISOPS_CPU": cpu,
        "OMP_NUM_THREADS": str(n),
        "KMP_AFFINITY": "disabled",  # Wine lacks what Intel's OpenMP asks about processors
        "WINEDEBUG": "-all",
        "WINEPREFIX": str(HOME / "wine"),
    }
    done = subprocess.run(
        ["wine", program.name, library.name, f"Z:{calls}"],
        cwd=torch_folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # torch prints each refused call there
        text=True,
        check=False,
    )
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
    tool("wine", "wine wine64")
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


def steps() -> dict[str, Callable[[], object]]:
    """Return what is done, in order."""
    records = Path(__file__).with_name("records.py")
    return {
        "build": lambda: compile_for(TARGET),
        "record": lambda: run(*here(records, "record", HOME, *MODULES)).splitlines()[-1],
        "wine": compare,
    }
