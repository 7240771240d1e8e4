"""Builds with the sanitizers named in VISOPS_SANITIZE, spelt as for `-fsanitize`.

Their objects go to folders of their own. The result needs the sanitizers' shared libraries, which
an ordinary Python must preload; `make test-asan` and `make test-tsan` do so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

KNOWN = ("address", "thread", "undefined")


def sanitizers(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the sanitizers in VISOPS_SANITIZE; none by default."""
    value = environment.get("VISOPS_SANITIZE", "")
    names = [name for name in value.split(",") if name]
    unknown = [name for name in names if name not in KNOWN]
    if unknown:
        raise SystemExit(
            f"visops: VISOPS_SANITIZE={value} is not known; it can hold {', '.join(KNOWN)}"
        )
    if {"address", "thread"} <= set(names):
        raise SystemExit("visops: VISOPS_SANITIZE can't hold both address and thread")
    return names


def build_folder(names: list[str]) -> str:
    """Return the folder of object files below build/."""
    return "-".join(["ninja", *names])


def compile_flags(names: list[str]) -> list[str]:
    """Return compiler flags for GCC and Clang. The first error ends the process.

    Optimised, some kernels with all of UBSan's checks take GCC minutes each.
    """
    if not names:
        return []
    level = "-O0" if "undefined" in names else "-O1"
    return [
        f"-fsanitize={','.join(names)}",
        *("-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1", level),
    ]


def link_flags(names: list[str]) -> list[str]:
    """Return linker flags for GCC and Clang."""
    return [f"-fsanitize={','.join(names)}"] if names else []
