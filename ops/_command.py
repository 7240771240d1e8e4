"""Parses the arguments of ``python -m visops.infer`` before torch is imported."""

import runpy
import sys
from pathlib import Path

_NAME = "visops.infer"


def parse_early() -> None:
    """Print the command's help, or what is wrong with its arguments, and exit; else do nothing.

    Python imports the package, and torch with it, before the module that ``-m`` names. That takes
    seconds, which ``--help`` should not. Until the module is found, ``sys.argv[0]`` is "-m".
    """
    given = getattr(sys, "argv", [])
    if given[:1] != ["-m"] or sys.orig_argv[-len(given)] not in (_NAME, f"-m{_NAME}"):
        return
    # By its path: importing it would import the package.
    module = runpy.run_path(str(Path(__file__).parent / "infer" / "arguments.py"))
    module["parse"](given[1:])
