"""Loads the compiled modules, or says exactly why they can't be."""

from __future__ import annotations

import importlib

import torch


def load_extensions() -> None:
    """Import `visops._C`, which registers the operators with torch, and `visops._numpy`.

    Raises
    ------
    ImportError
        With the loader's own message, the torch version built against, and the one found.
    """
    for name in ("visops._C", "visops._numpy"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ImportError(
                f"{name} could not be loaded: {error}\n"
                f"visops was {_built_against()}; the torch found is {torch.__version__}.\n"
                "Rebuild it from its source tree with `make build`, or reinstall the package; "
                "python scripts/collect_env.py prints what a bug report needs.",
                name=name,
            ) from error


def _built_against() -> str:
    try:
        from ._build import torch_version, version
    except ImportError:
        return "never built here (_build.py is missing)"
    return f"built as version {version} against torch {torch_version} (for torch 2.11 or newer)"
