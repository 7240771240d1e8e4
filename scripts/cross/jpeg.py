"""libjpeg-turbo for the systems that zig compiles for.

It is compiled from Debian's sources, and so is of the version that the wheel for Linux x86-64 has.
"""

import shutil
import sysconfig
from pathlib import Path

from cross.debian import unpack_source
from cross.here import ROOT, run, tool
from cross.targets import Target, zig

SOURCE = ROOT / "build" / "cross" / "jpeg"
HEADERS = ("jpeglib.h", "jmorecfg.h", "jerror.h")
LICENCES = ("LICENSE.md", "README.ijg")
OPTIONS = {
    "BUILD": "",  # the day, otherwise
    "CMAKE_BUILD_TYPE": "Release",
    "CMAKE_C_FLAGS": "-g0 -fvisibility=hidden",
    "CMAKE_INSTALL_PREFIX": "/usr",
    "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
    "CMAKE_POSITION_INDEPENDENT_CODE": "ON",
    "CMAKE_TRY_COMPILE_TARGET_TYPE": "STATIC_LIBRARY",  # links nothing, as nothing could run
    "ENABLE_SHARED": "OFF",
    "REQUIRE_SIMD": "ON",
}


def check_tools(target: Target) -> None:
    """Stop if a program is missing that is wanted after minutes of compiling."""
    tool("dpkg-source", "dpkg-dev")
    if target.compiled_by_zig and target.machine == "x86_64":
        tool("nasm", "nasm")


def source() -> Path:
    """Return libjpeg-turbo's sources; download them if they aren't there."""
    if not SOURCE.exists():
        unpack_source(SOURCE, "libjpeg-turbo")
    return SOURCE


def licences() -> list[Path]:
    """Return the texts that whoever passes libjpeg-turbo on has to pass on too."""
    return [source() / name for name in LICENCES]


def jpeg_for(target: Target) -> Path:
    """Return a folder with libjpeg-turbo in `include` and `lib`; compile it if it isn't there."""
    folder = ROOT / "build" / "cross" / target.name / "jpeg"
    if folder.exists():
        return folder
    check_tools(target)
    built = folder.with_suffix(".build")
    shutil.rmtree(built, ignore_errors=True)
    # What CMake knows as macOS asks for Apple's tools. Only the file format differs, and zig
    # takes that from its target.
    system = "Windows" if target.system == "windows" else "Linux"
    options = OPTIONS | {
        "CMAKE_SYSTEM_NAME": system,
        "CMAKE_SYSTEM_PROCESSOR": target.machine,
        "CMAKE_C_ARCHIVE_CREATE": f"{zig()} ar rcs <TARGET> <OBJECTS>",
        "CMAKE_C_ARCHIVE_FINISH": "true",
        "CMAKE_MAKE_PROGRAM": str(Path(sysconfig.get_path("scripts"), "ninja")),
    }
    words = [f"-D{name}={value}" for name, value in options.items()]
    cmake = Path(sysconfig.get_path("scripts"), "cmake")
    compiler = f"{zig()} cc -target {target.triple}"
    run(cmake, "-S", source(), "-B", built, "-G", "Ninja", *words, CC=compiler)
    run(cmake, "--build", built, "--target", "jpeg-static")
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    headers = [built / "jconfig.h", *(source() / name for name in HEADERS)]
    for kind, files in (("include", headers), ("lib", [built / "libjpeg.a"])):
        (partial / kind).mkdir(parents=True)
        for file in files:
            shutil.copy(file, partial / kind)
    partial.rename(folder)
    return folder
