"""Commands for both machines, and the cross build."""

import os
import shlex
import sys
from pathlib import Path

from arm.machine import HOME, MACHINE, compiler_command, run

LIBRARY = HOME / "lib"


def here(*arguments: str | Path) -> list[str | Path]:
    """Return a command for this machine's Python."""
    return [sys.executable, *arguments]


def there(*arguments: str | Path, path: str | Path = LIBRARY) -> list[str | Path]:
    """Return a command for the ARM machine's Python, with what was built for it."""
    return ["env", f"PYTHONPATH={path}", "OMP_NUM_THREADS=2", MACHINE / "python", *arguments]


def compile_with(*arguments: str | Path) -> None:
    """Run setup.py with the cross compiler."""
    variables = {
        "VISOPS_TARGET": "aarch64",
        "CXX": shlex.join(compiler_command()),
        "VISOPS_PYTHONS": str(MACHINE / "python"),
        "VISOPS_CUDA": "0",
        "VISOPS_EMULATION": "0",
        "VISOPS_JPEG": "1",
        "VISOPS_WERROR": os.environ.get("VISOPS_WERROR", "1"),
    }
    run(*here("setup.py", "--quiet", *arguments), **variables)


def compile_for_arm() -> str:
    """Build the library and `_native` into a folder of their own."""
    compile_with("build", "--build-lib", LIBRARY)
    version = "import visops; i = visops.build_info(); print(i['compiler'], i['cpu'], i['jpeg'])"
    return run(*there("-c", version)).strip()
