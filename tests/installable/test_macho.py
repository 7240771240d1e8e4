"""What `make test-macos` would find wrong with a library."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("ziglang", reason="make wheels installs it")
from cross import macos
from cross.targets import TARGETS, compiler, link_flags

from installable import macho

ROOT = Path(__file__).resolve().parents[2]
TARGET = TARGETS["macos-arm64"]
SOURCE = """
#include <string>
#include <vector>
extern "C" int torch_some(int);
extern "C" __attribute__((visibility("default"))) int visops_some(int n) {
  return torch_some(static_cast<int>(std::vector<std::string>(n).size()));
}
"""
TORCHES = {"2.11.0": {"_torch_some"}, "2.15.0": {"_torch_some", "_torch_other"}}
OWN_NEW = ROOT / "csrc" / "core" / "dispatch" / "own_new.cpp"


def built(folder: Path, *sources: Path, target: str = TARGET.triple) -> macho.Library:
    source, library = folder / "some.cpp", folder / "libsome.dylib"
    source.write_text(SOURCE)
    command = [
        *compiler(replace(TARGET, triple=target)),
        "-std=c++17",
        "-O1",
        "-fvisibility=hidden",
    ]
    flags = link_flags(TARGET, "lib/libsome.dylib", Path(), [])
    subprocess.run([*command, source, *sources, *flags, "-o", library], check=True)
    return macho.read(library)


def test_a_library_like_ours(tmp_path: Path) -> None:
    library = built(tmp_path, OWN_NEW)
    assert macos.problems(library, "libsome.dylib", TORCHES) == []
    assert "_visops_some" in library.exports
    assert library.imports["_torch_some"] == macho.ANYWHERE
    assert library.rpaths == ["@loader_path/../../torch/lib"]


def test_memory_functions_that_show(tmp_path: Path) -> None:
    """Without own_new.cpp."""
    (found,) = macos.problems(built(tmp_path), "libsome.dylib", TORCHES)
    assert found.startswith("shows __Zda")


def test_another_machine_and_system(tmp_path: Path) -> None:
    library = built(tmp_path, OWN_NEW, target="x86_64-macos.13.0-none")
    found = macos.problems(library, "libother.dylib", TORCHES)
    assert "is for x86_64, not arm64" in found
    assert "needs macOS 13.0, not 11.0" in found
    assert "has the signature none, not ad hoc" in found
    assert "calls itself @rpath/libsome.dylib, not @rpath/libother.dylib" in found


def test_functions_that_torch_lacks(tmp_path: Path) -> None:
    torches = {**TORCHES, "2.11.0": {"_torch_other"}}
    found = macos.problems(built(tmp_path, OWN_NEW), "libsome.dylib", torches)
    assert found == ["asks torch 2.11.0 for _torch_some, which it lacks"]


def test_what_is_no_library(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\x7fELF" + bytes(64))
    with pytest.raises(ValueError, match="is no library for one 64-bit machine"):
        macho.read(file)
