"""Commands of this machine, and packages from PyPI for others."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
# Beside which a wheel is tried: the oldest, and the newest. torchvision fits one torch each.
TORCHES = (
    {"torch": "2.11.0", "torchvision": "0.26.0"},
    {"torch": "2.15.0", "torchvision": "0.29.2"},
)


def fail(message: str) -> NoReturn:
    """Stop with one line."""
    raise SystemExit(f"cross: {message}")


def run(*command: str | Path, **variables: str) -> str:
    """Run a command in the repository and return what it prints; stop if it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        fail(f"{done.stdout[-4000:]}\nfailed: {' '.join(map(str, command))}")
    return done.stdout


def here(*arguments: str | Path) -> list[str | Path]:
    """Return a command for this machine's Python."""
    return [sys.executable, *arguments]


def tool(name: str, package: str) -> Path:
    """Return a program of this machine."""
    path = shutil.which(name)
    return Path(path) if path else fail(f"{name} is missing; on Debian: apt install {package}")


def download_wheels(
    folder: Path, platforms: Iterable[str], names: Iterable[str], python: str = "3.11"
) -> None:
    """Download other systems' wheels from PyPI, without what they need."""
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--implementation=cp"]
    options += [f"--python-version={python}", *(f"--platform={name}" for name in platforms)]
    run(*here("-m", "pip", "download", *options, "--dest", folder, *names))


def unpack_libraries(folder: Path, wheels: Iterable[Path], wanted: Callable[[str], bool]) -> None:
    """Put those files of wheels into a folder, without theirs, whose names are wanted."""
    partial = folder.with_suffix(".partial")
    partial.mkdir(parents=True, exist_ok=True)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as files:
            for name in filter(wanted, files.namelist()):
                (partial / Path(name).name).write_bytes(files.read(name))
    partial.rename(folder)
