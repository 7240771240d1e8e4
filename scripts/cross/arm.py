"""The build for 64-bit ARM in an emulator.

Steps:

machine  the ARM machine: NOTE [ An ARM machine ] in machine.py
build    the cross build, with warnings as errors
code     no product is contracted with a sum, in the object code
there    the calls of tests/operators, of the fuzzer, of chains and of JPEG files, recorded here and
         made there: every bit is compared
back     the same calls recorded there and made here
tests    tests marked `matrix`, run there: by default a part, another one from day to day
wheel    only if asked for: the wheel in dist/, with some tests beside the oldest and newest torch

All it makes is in build/cross/linux-aarch64 and build/ninja-linux-aarch64, and is kept for the next
run. zig's Clang compiles it, and so this also tests the code that a Mac runs. The emulator says
nothing about speed, and little about the order in which ARM's cores see each other's writes: on an
x86 host they see them in x86's.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cross.build import compile_for
from cross.here import ROOT, TORCHES, fail, here, run
from cross.machine import (
    HOME,
    MACHINE,
    PLATFORMS,
    TARGET,
    make_machine,
    python_version,
    there,
    unpack_wheels,
)

PARTS = 6  # of the tests of values; one takes a few minutes
RECORDS = Path(__file__).with_name("records.py")
MODULES = ("cases", "random", "chains", "files")  # of its calls
# For the wheel: operators, masks' bits, gradients of a warp, arrays past torch's dispatcher, JPEG.
TESTS = (
    "tests/suppression/test_nms.py",
    "tests/masks/test_packed.py",
    "tests/warp/test_remap.py",
    "tests/warp/test_affine_exact.py",
    "tests/jpeg/test_decode.py",
)
JOBS = os.cpu_count() or 1


def shares(modules: Iterable[Path]) -> list[list[str]]:
    """Deal modules to as many processes as there are cores; the longest ones apart."""
    files = sorted(modules, key=lambda file: file.stat().st_size, reverse=True)
    return [[file.stem for file in files[job::JOBS]] for job in range(min(JOBS, len(files)))]


def check_code() -> str:
    """Disassemble the objects for ARM. The library here, if built to ship, has lost its names."""
    found = run(*here("-m", "pytest", "-q", "tests/build/test_kernels.py", "-k", "on_arm"))
    if "skipped" in found:
        fail(f"nothing was disassembled:\n{found}")
    return found.strip().splitlines()[-1]


def compare(
    name: str, recorder: Callable[..., list[str | Path]], player: Callable[..., list[str | Path]]
) -> str:
    """Record calls of all operators on one machine, make them on the other."""
    folder = HOME / f"calls-{name}"
    with ThreadPoolExecutor(JOBS) as pool:
        dealt = [MODULES[job::JOBS] for job in range(JOBS)]
        list(pool.map(lambda m: run(*recorder(RECORDS, "record", folder, *m)), filter(None, dealt)))
        recorded = (folder / f"{module}.calls" for module in MODULES)
        replay = lambda m: run(*player(RECORDS, "replay", folder, *m))  # noqa: E731
        printed = list(pool.map(replay, shares(recorded)))
    total = dict.fromkeys(("calls", "tensors", "refused", "NaN payloads"), 0)
    for text in printed:
        print(text, end="")
        for key, number in re.findall(r"'([^']+)': (\d+)", text.rpartition("TOTAL")[2]):
            total[key] = total.get(key, 0) + int(number)
    return (
        f"{total['calls']:,} calls, {total['tensors']:,} tensors: equal bits, "
        f"{total['NaN payloads']} of them but for NaNs' payloads; {total['refused']} refused in "
        "the same words"
    )


def run_tests(part: int, parts: int) -> str:
    """Run the tests of values there: part `part` of so many, or all of them."""
    marked = [f for f in sorted(ROOT.glob("tests/**/test_*.py")) if "mark.matrix" in f.read_text()]
    chosen = marked[part - 1 :: parts]
    options = ["-q", "-m", "matrix and not cluster", "-n", str(JOBS), "--dist", "loadgroup"]
    options += ["-p", "no:cacheprovider"]
    command = [str(word) for word in there("-m", "pytest", *options, *chosen)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    if done.returncode:
        fail("tests failed on ARM")
    return f"part {part} of {parts}: {done.stdout.strip().splitlines()[-1]}"


def build_there() -> str:
    """Build, and return what the library says of itself there."""
    compile_for(TARGET)
    version = "import visops; i = visops.build_info(); print(i['compiler'], i['cpu'], i['jpeg'])"
    return run(*there("-c", version)).strip()


def try_wheel() -> str:
    """Let pip install the wheel, and run README's example and some tests beside several torches."""
    wheels = list((ROOT / "dist").glob(f"*-{TARGET.tag}.whl"))
    if len(wheels) != 1:
        fail(f"dist/ has {len(wheels)} wheels for {TARGET.name}; run: make wheels")
    site = HOME / "wheel-site"
    shutil.rmtree(site, ignore_errors=True)
    version = python_version(MACHINE / "root")
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--target", str(site)]
    options += [f"--python-version={version}", *(f"--platform={p}_aarch64" for p in PLATFORMS)]
    run(*here("-m", "pip", "install", *options, wheels[0]))
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    if example is None:
        fail("README.md has no example")
    program = HOME / "readme.py"
    program.write_text(example[1])
    passed = []
    for packages in TORCHES:
        folder = MACHINE / f"torch-{packages['torch']}"
        if not folder.exists():
            unpack_wheels(folder, version, packages)
        path = f"{site}:{folder}"
        run(*there(program, path=path))
        print(run(*there("-m", "visops", path=path)))
        words = ("-q", "-p", "no:cacheprovider", "-m", "not cluster and not cuda")
        done = run(*there("-m", "pytest", *words, *TESTS, path=path))
        passed.append(f"torch {packages['torch']}: {done.strip().splitlines()[-1]}")
    return f"{wheels[0].name}; " + "; ".join(passed)


def steps(part: str, everything: bool) -> dict[str, Callable[[], object]]:
    """Return what can be done, in order; the last is done only if asked for."""
    number, parts = (1, 1) if everything else map(int, part.split("/"))
    return {
        "machine": make_machine,
        "build": build_there,
        "code": check_code,
        "there": lambda: compare("here", here, there),
        "back": lambda: compare("there", there, here),
        "tests": lambda: run_tests(number, parts),
        "wheel": try_wheel,
    }
