"""Copies of the package, and what its libraries need."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import fresh
import pytest
import visops

PACKAGE = Path(visops.__file__).parent


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


linux = pytest.mark.skipif(sys.platform != "linux", reason="ELF, and the loader's messages")


def readelf(option: str, file: Path) -> str:
    command = [program("readelf"), option, "--wide", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def needed(file: Path) -> set[str]:
    return set(re.findall(r"NEEDED.*\[(.+)\]", readelf("--dynamic", file)))


# An editable install would answer for the modules that the copy lacks.
ONLY_THE_COPY = """
import sys
sys.meta_path = [f for f in sys.meta_path if not f.__module__.startswith("__editable__")]
"""


def import_copy(folder: Path, before: str = "", then: str = "") -> str:
    """Import the copy of the package in `folder` in a new process; return what it printed."""
    program = f"{ONLY_THE_COPY}\n{before}\nimport visops\n{then}"
    run = fresh.run(program, cwd=folder, PYTHONPATH=str(folder))
    return run.stdout + run.stderr


def copy_package(folder: Path, *left_out: str) -> Path:
    """Copy the package into `folder` without some of its files."""
    patterns = shutil.ignore_patterns("__pycache__", *left_out)
    shutil.copytree(PACKAGE, folder / "visops", ignore=patterns)
    return folder / "visops"
