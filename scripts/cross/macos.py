"""Checks of the wheel for macOS that take no Mac; nothing of it is run.

    python scripts/cross macos

Each library in the wheel must be for ARM alone, need macOS 11.0 and the system's C library alone,
carry a signature (macOS on ARM runs nothing without one), show only what it should, and ask torch
for functions that the libraries of the oldest and newest torch have.
"""

import re
from collections.abc import Callable
from pathlib import Path

from installable import macho

from cross.build import compile_for
from cross.here import ROOT, TORCHES, download_wheels, fail, unpack_libraries
from cross.targets import TARGETS

TARGET = TARGETS["macos-arm64"]
HOME = ROOT / "build" / "cross" / TARGET.name
NEEDED = "/usr/lib/libSystem.B.dylib"
OLDEST = "11.0"
# The last two are every library's own, at the same place in all.
EXPORTS = re.compile(r"_visops_\w+|_PyInit__native|__mh_dylib_header|___dso_handle")
PYTHONS = re.compile(r"__?Py[A-Z_]\w*")


def torch_libraries(version: str) -> list[Path]:
    """Return torch's libraries for macOS."""
    folder = HOME / f"torch-{version}"
    if not folder.exists():
        wheels = HOME / "wheels"
        platforms = ("macosx_11_0_arm64", "macosx_14_0_arm64")
        download_wheels(wheels, platforms, [f"torch=={version}"])
        wanted = re.compile(r"torch/lib/lib(torch_cpu|c10)\.dylib").fullmatch
        unpack_libraries(folder, wheels.glob(f"torch-{version}*"), lambda name: bool(wanted(name)))
    return sorted(folder.glob("*.dylib"))


def problems(library: macho.Library, name: str, torches: dict[str, set[str]]) -> list[str]:
    """Return what is wrong with a library, in words."""
    found = []
    for what, got, wanted in (
        ("is for", library.machine, "arm64"),
        ("needs macOS", library.oldest_system, OLDEST),
        ("needs", ", ".join(library.needed), NEEDED),
        ("has the signature", library.signature, "ad hoc"),
        ("calls itself", library.name, f"@rpath/{name}"),
    ):
        if got != wanted:
            found.append(f"{what} {got or 'none'}, not {wanted}")
    if unwanted := sorted(s for s in library.exports if not EXPORTS.fullmatch(s)):
        found.append(f"shows {', '.join(unwanted[:5])}")
    asked = {symbol for symbol, place in library.imports.items() if place == macho.ANYWHERE}
    asked = {symbol for symbol in asked if not PYTHONS.fullmatch(symbol)}
    for version, symbols in torches.items():
        if missing := sorted(asked - symbols):
            found.append(f"asks torch {version} for {', '.join(missing[:5])}, which it lacks")
    return found


def check() -> str:
    """Check each library; return what was looked at."""
    torches: dict[str, set[str]] = {}
    for packages in TORCHES:
        read = [macho.read(file).exports for file in torch_libraries(packages["torch"])]
        torches[packages["torch"]] = set[str]().union(*read)
    package = HOME / "lib" / "visops"
    lines, wrong = [], []
    for path in sorted([*package.glob("lib/*.dylib"), *package.glob("_native.*.so")]):
        library = macho.read(path)
        wrong += [f"{path.name} {what}" for what in problems(library, path.name, torches)]
        asked = [s for s, place in library.imports.items() if place == macho.ANYWHERE]
        pythons = sum(1 for s in asked if PYTHONS.fullmatch(s))
        lines.append(
            f"{path.name}: {library.machine}, macOS {library.oldest_system}, signed "
            f"{library.signature}, {len(library.exports)} symbols shown, {len(asked) - pythons} "
            f"of torch's, {pythons} of Python's and {len(library.imports) - len(asked)} of the "
            "system's asked for"
        )
    if not (package / "lib" / TARGET.library.format("visops")).is_file():
        wrong.append("libvisops is missing")
    if wrong:
        fail("\n".join(wrong))
    return "\n         ".join(["nothing was run on a Mac", *lines])


def steps() -> dict[str, Callable[[], object]]:
    """Return what is done, in order."""
    return {"build": lambda: compile_for(TARGET), "check": check}
