"""Decode every kernel, also those that no test launches: all instructions must be known."""

import ctypes
import sys

import visops  # noqa: F401  (it loads torch)
from visops._loader import LIBRARY

if __name__ == "__main__":
    library = ctypes.CDLL(str(LIBRARY))
    if not hasattr(library, "visops_ptx_check_all"):
        sys.exit(f"{LIBRARY} was not built with VISOPS_PTX=1")
    sys.exit(bool(library.visops_ptx_check_all()))
