"""Loads the compiled library, or says exactly why it can't be."""

import ctypes
import struct
import sys
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import torch

_NAMES = {"win32": "visops.dll", "darwin": "libvisops.dylib"}
LIBRARY = Path(__file__).with_name("lib") / _NAMES.get(sys.platform, "libvisops.so")

# Compiled for each Python.
_NATIVE = Path(__file__).with_name(f"_native{EXTENSION_SUFFIXES[0]}")

REINSTALL = "run: pip install --force-reinstall --no-deps visops"
_OLDEST_TORCH = (2, 11)


def load_library() -> None:
    """Load libvisops, which registers the operators with torch.

    Its CUDA kernels are loaded when the first CUDA tensor comes: csrc/core/dispatch/cuda_library.h.

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
    if hasattr(torch.ops.visops, "build_info") and not _is_loaded(LIBRARY):
        raise ImportError(
            f"another copy of visops is loaded in this process already, and {LIBRARY} can't be "
            "loaded beside it; keep one of them on sys.path (pip uninstall visops removes the "
            "installed one)"
        )
    try:
        if not LIBRARY.is_file():
            raise OSError(f"{LIBRARY} is not there")
        check_complete(LIBRARY)
        torch.ops.load_library(str(LIBRARY))
    except OSError as error:
        # torch's own error names the file; the reason is in what caused it.
        raise _failure(LIBRARY.name, str(error.__cause__ or error)) from error
    if native_error is None:
        try:
            check_complete(_NATIVE)
            from . import _native  # noqa: F401
        except (OSError, ImportError) as error:
            raise _failure(_NATIVE.name, str(error)) from error
    else:
        sys.modules[f"{__package__}._native"] = _MissingNative(f"{__package__}._native")
    library = ctypes.CDLL(str(LIBRARY))
    if torch.version.cuda is None:
        library.visops_refuse_cuda(b"this torch was built without CUDA")
    kernels = LIBRARY.with_name(LIBRARY.name.replace("visops", "visops_cuda"))
    try:
        if kernels.is_file():
            check_complete(kernels)
    except OSError as error:
        reason = f"the CUDA kernels could not be loaded: {error}; {REINSTALL}"
        library.visops_refuse_cuda(reason.encode())


def _native_error() -> str | None:
    """Return why `_native` can't be had: modules' names tell which Pythons they are for."""
    if _NATIVE.is_file():
        return None
    modules = Path(__file__).parent.glob("_native.*[!i]")
    tags = sorted(module.name.split(".")[1] for module in modules)
    return (
        f"chains, arrays and run lengths need visops._native, which this copy has for "
        f"{', '.join(tags) or 'no Python'}, not for {EXTENSION_SUFFIXES[0].split('.')[1]}, which "
        "is this one; operators on tensors work; take such a Python, or build visops with this one"
    )


# None where `_native` is here; else one sentence.
native_error = _native_error()


class _MissingNative(ModuleType):
    """In the place of `_native`: functions can be imported, and say at their call what is missing.

    What classes of chains derive from can't, which ends the import of visops.transforms.
    """

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*args: Any, **kwargs: Any) -> NoReturn:
            raise RuntimeError(f"visops: {native_error}")

        if name[0].isupper():
            raise ImportError(f"visops.transforms: {native_error}")
        return refuse


def _is_loaded(library: Path) -> bool:
    return any(library.samefile(path) for path in torch.ops.loaded_libraries)


def check_complete(library: Path) -> None:
    """Raise OSError for the beginning of a library: the system would end the process.

    An ELF file ends with, or holds, a table whose place its first bytes tell.
    """
    with library.open("rb") as file:
        header = file.read(64)
        size = file.seek(0, 2)
    if len(header) == 64 and header.startswith(b"\x7fELF\x02"):
        (table,) = struct.unpack_from("<Q", header, 40)
        entry, entries = struct.unpack_from("<HH", header, 58)
        if size < table + entry * entries:
            raise OSError(f"{library} is truncated: it has {size} bytes")


def _failure(name: str, reason: str) -> ImportError:
    report = Path(__file__).with_name("__main__.py")  # runs without the package
    return ImportError(
        f"visops' {name} could not be loaded: {reason}\n"
        f"visops was {_built_against()}; the torch found is {torch.__version__}.\n"
        f"To mend that, {REINSTALL}; in its source tree, run: make build\n"
        f"A bug report needs what this prints: {sys.executable} {report}",
        name=f"visops.{name}",
    )


def _built_against() -> str:
    try:
        from ._build import torch_version, version
    except ImportError:
        return "never built here (_build.py is missing)"
    return f"built as version {version} against torch {torch_version} (for torch 2.11 or newer)"
