"""The decoder of JPEG files: built where it can be, missed by nothing but its own functions."""

import os
import subprocess
import sys
from pathlib import Path

import build_toolchain
import pytest
import visops
from visops._loader import REINSTALL
from visops.jpeg.file import FILE
from visops.jpeg.pictures import load_pillow

from build.copies import copy_package, import_copy, linux, needed

DECODE = """
import io, numpy
from PIL import Image
file = io.BytesIO()
Image.fromarray(numpy.full((9, 9, 3), 50, numpy.uint8)).save(file, "JPEG")
info = visops.build_info()
print(info["jpeg"], "|", info["jpeg_error"], "|", visops.decode_jpeg(file.getvalue()).unique())
"""


def decoded_by_copy(folder: Path) -> list[str]:
    return [part.strip() for part in import_copy(folder, then=DECODE).split("|")]


def pillow() -> str:
    found = load_pillow()
    if isinstance(found, str):
        pytest.skip(found)
    return found.name


def test_without_the_library(tmp_path: Path) -> None:
    copy_package(tmp_path, FILE.name)
    assert decoded_by_copy(tmp_path) == [
        pillow(),
        "this copy of visops was built without libjpeg-turbo",
        "tensor([50], dtype=torch.uint8)",
    ]


@linux
def test_with_a_library_that_does_not_load(tmp_path: Path) -> None:
    library = copy_package(tmp_path) / "lib" / FILE.name
    library.unlink(missing_ok=True)
    library.write_bytes(b"not a library, but long enough to be read as one" * 4)
    name, reason, values = decoded_by_copy(tmp_path)
    assert (name, values) == (pillow(), "tensor([50], dtype=torch.uint8)")
    assert reason.startswith(f"{FILE.name} could not be loaded: ")
    assert "invalid ELF header" in reason
    assert reason.endswith(f"; {REINSTALL}")


@linux
def test_with_the_beginning_of_the_library(tmp_path: Path) -> None:
    """The system would end the process that loads it."""
    if not FILE.exists():
        pytest.skip("built without libjpeg-turbo")
    library = copy_package(tmp_path) / "lib" / FILE.name
    library.write_bytes(FILE.read_bytes()[:10_000])
    assert f"{library} is truncated: it has 10000 bytes" in decoded_by_copy(tmp_path)[1]


def test_without_pillow_either(tmp_path: Path) -> None:
    copy_package(tmp_path, FILE.name)
    code = "import sys; sys.modules['PIL'] = None"
    printed = import_copy(tmp_path, code, then="visops.decode_jpeg(b'1')")
    assert "ImportError: visops.decode_jpeg: this copy of visops was built without " in printed
    assert "and Pillow can't be imported: " in printed
    assert import_copy(tmp_path, code, "print(visops.build_info()['jpeg'])") == "None\n"


@linux
def test_the_library_needs_only_libjpeg() -> None:
    if not FILE.exists():
        pytest.skip("built without libjpeg-turbo")
    assert any(name.startswith("libjpeg") for name in needed(FILE))
    others = ("torch", "python", "cuda", "visops")
    assert not [name for name in needed(FILE) if any(other in name for other in others)]
    assert visops.build_info()["jpeg_error"] is None


def find_jpeg(**variables: str) -> subprocess.CompletedProcess[str]:
    """Look for libjpeg-turbo with these variables."""
    return subprocess.run(
        [sys.executable, "-c", "import build_toolchain; print(build_toolchain.find_jpeg())"],
        env={**os.environ, **variables},
        cwd=Path(build_toolchain.__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )


def test_left_out_on_request() -> None:
    found = find_jpeg(VISOPS_JPEG="0")
    assert found.stdout == "visops: building without libjpeg-turbo: VISOPS_JPEG=0\nFalse\n"


def test_left_out_without_headers(tmp_path: Path) -> None:
    """A header of another libjpeg is as good as none."""
    (tmp_path / "jpeglib.h").write_text("#define JPEG_LIB_VERSION 90\n")
    found = find_jpeg(VISOPS_JPEG="", CXXFLAGS=f"-I{tmp_path}")
    line, result = found.stdout.splitlines()
    assert result == "False"
    assert line.startswith("visops: building without libjpeg-turbo: ")
    assert "jpeglib.h is not that of libjpeg-turbo 2 or newer" in line
    assert line.endswith("; install libjpeg-turbo's headers")
    demanded = find_jpeg(VISOPS_JPEG="1", CXXFLAGS=f"-I{tmp_path}")
    assert demanded.returncode != 0
    assert demanded.stderr.startswith("visops: VISOPS_JPEG=1, but ")
