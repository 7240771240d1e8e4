"""Loads the compiled library, or says exactly why it can't be."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import torch

_NAMES = {"win32": "visops.dll", "darwin": "libvisops.dylib"}
LIBRARY = Path(__file__).with_name("lib") / _NAMES.get(sys.platform, "libvisops.so")

_OLDEST_TORCH = (2, 11)


def load_library() -> None:
    """Load libvisops, which registers the operators with torch.

    Its CUDA kernels are loaded when the first CUDA tensor comes (csrc/core/cuda_library.h).

    Raises
    ------
    ImportError
        With the loader's own message, the torch version built against, and the one found.
    """
    found = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if found < _OLDEST_TORCH:
        raise ImportError(
            f"visops needs torch 2.11 or newer, and this is torch {torch.__version__}; "
            "run: pip install --upgrade torch"
        )
    try:
        if not LIBRARY.is_file():
            raise OSError(f"{LIBRARY} is not there")
        torch.ops.load_library(str(LIBRARY))
    except OSError as error:
        raise _failure(LIBRARY.name, str(error)) from error
    except RuntimeError as error:  # torch's, of several pages
        if "Only a single TORCH_LIBRARY" not in str(error):
            raise _failure(LIBRARY.name, str(error).splitlines()[0]) from error
        raise ImportError(
            f"another copy of visops is loaded in this process already, and {LIBRARY} can't be "
            "loaded beside it; keep one of them on sys.path (pip uninstall visops removes the "
            "installed one)"
        ) from None
    if torch.version.cuda is None:
        ctypes.CDLL(str(LIBRARY)).visops_refuse_cuda(b"this torch was built without CUDA")


def _failure(name: str, reason: str) -> ImportError:
    report = Path(__file__).with_name("__main__.py")  # runs without the package
    return ImportError(
        f"visops' {name} could not be loaded: {reason}\n"
        f"visops was {_built_against()}; the torch found is {torch.__version__}.\n"
        "Reinstall it (pip install --force-reinstall visops), or rebuild it in its source tree "
        f"with `make build`. A bug report needs what this prints: {sys.executable} {report}",
        name=f"visops.{name}",
    )


def _built_against() -> str:
    try:
        from ._build import torch_version, version
    except ImportError:
        return "never built here (_build.py is missing)"
    return f"built as version {version} against torch {torch_version} (for torch 2.11 or newer)"
