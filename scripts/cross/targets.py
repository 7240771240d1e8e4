"""The four systems that a wheel is for, and what building for each of them takes.

NOTE [ Wheels for other systems ]
zig, from PyPI, is Clang with every system's headers and C libraries. It compiles for Linux on ARM,
macOS and Windows, and links for all: on Linux it names the oldest glibc that torch's own wheels
run on. For Linux x86-64 GCC compiles, as in every other build, so objects are shared with it.

Nothing of the other systems is needed but their names: torch's functions, and on Windows Python's,
are imported from libraries made of those that the objects ask for (write_import_library()). On
macOS they are looked up when a library loads. Python's headers are the same for all systems but
pyconfig.h, of which python_config() writes what the others read.

What zig links holds libc++: NOTE [ Errors of another C++ runtime ] (csrc/torch/register.h).
"""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

FUNCTIONS = re.compile(rb"(?<![A-Za-z0-9])(?:__imp_)?((?:aoti_)?torch_\w+|_?Py[A-Z_]\w+)")
NAMES_AN_ERROR = re.compile(r"ErrorString|ErrorName|StatusString|LastErrorString|StatusName")


@dataclass(frozen=True)
class Target:
    """A system and processor, by the names that everyone has for them."""

    name: str
    machine: str  # as Linux names it
    triple: str  # zig's, with the oldest version of the system
    tag: str  # of wheels
    library: str
    module: str  # how the name of `_native` ends; {} is "311" or "313t"

    @property
    def system(self) -> str:
        """The name without the processor: linux, macos or windows."""
        return self.name.partition("-")[0]

    @property
    def compiled_by_zig(self) -> bool:
        """Whether the C++ compiler is zig's too, and not only the linker."""
        return self.name != "linux-x86_64"


TARGETS = {
    target.name: target
    for target in (
        Target(
            "linux-x86_64",
            "x86_64",
            "x86_64-linux-gnu.2.28",
            "manylinux_2_28_x86_64",
            "lib{}.so",
            ".cpython-{}-x86_64-linux-gnu.so",
        ),
        Target(
            "linux-aarch64",
            "aarch64",
            "aarch64-linux-gnu.2.28",
            "manylinux_2_28_aarch64",
            "lib{}.so",
            ".cpython-{}-aarch64-linux-gnu.so",
        ),
        Target(
            "macos-arm64",
            "aarch64",
            "aarch64-macos.11.0-none",
            "macosx_11_0_arm64",
            "lib{}.dylib",
            ".cpython-{}-darwin.so",
        ),
        Target(
            "windows-x86_64",
            "x86_64",
            "x86_64-windows-gnu",
            "win_amd64",
            "{}.dll",
            ".cp{}-win_amd64.pyd",
        ),
    )
}
MACHINES = ("x86_64", "aarch64")
_SAME_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}  # other systems' names
HOST = _SAME_MACHINES.get(platform.machine().lower(), platform.machine().lower())
# The target that this machine runs, if it is one.
OWN = next(
    (
        name
        for name, target in TARGETS.items()
        if (target.system, target.machine)
        == ({"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform), HOST)
    ),
    None,
)


def wanted_target() -> Target | None:
    """Return the target in VISOPS_TARGET; None: this machine's, with its own compiler.

    That takes Linux. Builds on macOS and Windows are like those that are made for them elsewhere.
    """
    name = os.environ.get("VISOPS_TARGET") or (None if sys.platform == "linux" else OWN)
    if name is not None and name not in TARGETS:
        known = f"{', '.join([*TARGETS][:-1])} or {[*TARGETS][-1]}"
        raise SystemExit(f"visops: VISOPS_TARGET={name} is not known; it can be {known}")
    return TARGETS[name] if name else None


def zig() -> str:
    """Return the program."""
    try:
        import ziglang
    except ImportError:
        raise SystemExit("visops: no zig; run: pip install ziglang") from None
    return str(Path(ziglang.__file__).with_name("zig.exe" if os.name == "nt" else "zig"))


def compiler(target: Target) -> list[str]:
    """Return the command of a target's C++ compiler, where that is zig's."""
    return [zig(), "c++", "-target", target.triple]


def linker(target: Target) -> list[str]:
    """Return the command that links for a target."""
    return compiler(target) if target.compiled_by_zig else [zig(), "cc", "-target", target.triple]


def link_flags(target: Target, destination: str, exports: Path, gcc: list[str]) -> list[str]:
    """Return the linker's options for a library at its place in the package.

    `exports` is a version script; `gcc` the compiler whose C++ library is taken, where zig's isn't.
    """
    if target.system == "windows":  # exports what is declared so
        return ["-shared", "-s"]
    if target.system == "macos":
        # A C++ program finds it by its own rpath; Python's modules can be such libraries, too.
        up = "/".join([".."] * len(Path(destination).parts))
        flags = ["-dynamiclib", "-Wl,-dead_strip"]
        flags.append(f"-Wl,-install_name,@rpath/{Path(destination).name}")
        return [*flags, f"-Wl,-rpath,@loader_path/{up}/torch/lib", "-undefined", "dynamic_lookup"]
    flags = ["-shared", "-s", "-Wl,--gc-sections", f"-Wl,--version-script={exports}"]
    return (
        flags
        if target.compiled_by_zig
        else flags + libraries_of(gcc, "libstdc++.so", "libgcc_s.so.1")
    )


def libraries_of(gcc: list[str], *names: str) -> list[str]:
    """Return where GCC finds libraries, which zig does not look for."""
    asked = [[*gcc, f"-print-file-name={name}"] for name in names]
    run = [subprocess.run(ask, capture_output=True, text=True, check=True) for ask in asked]
    return [done.stdout.strip() for done in run]


def import_libraries(target: Target, libraries: Sequence[str], tag: str | None) -> list[str]:
    """Return what to link with in place of torch's libraries, and of Windows' Python by its tag."""
    if target.system == "macos":
        return []
    if target.system == "linux":
        return [f"lib{name}.so" for name in libraries if name != "c10"]  # nothing of it is used
    names = ["torch_cpu.dll"] * bool(libraries) + [f"python{tag}.dll"] * bool(tag)
    return [f"{name}.a" for name in names]


def write_import_library(target: Target, out: Path, objects: list[Path]) -> None:
    """Write a library that names those functions of another that objects ask for.

    Linux wants one with the other's name; Windows wants NAME.dll.a, a list.
    """
    found: set[str] = set()
    for file in objects:
        found.update(name.decode() for name in FUNCTIONS.findall(file.read_bytes()))
    wanted = {
        name
        for name in found
        if name.lstrip("_").startswith("Py") == out.name.startswith("python")
        and ("current_cuda" in name) == out.name.startswith("libtorch_cuda")
    }
    if target.system == "linux":
        return write_stub(target, out, {name: set() for name in wanted})
    names = out.with_suffix(".def")
    names.write_text("\n".join([f"LIBRARY {out.stem}", "EXPORTS", *sorted(wanted)]))
    command = [zig(), "dlltool", "-m", "i386:x86-64", "-d", str(names), "-l", str(out)]
    subprocess.run(command, check=True)


def write_stub(target: Target, out: Path, functions: Mapping[str, AbstractSet[str]]) -> None:
    """Write a library for Linux with functions of these versions, which all say 100.

    To those that ask CUDA's libraries, that is: there is no device.
    """
    lines = ['static const char kName[] = "no device";']
    for name in sorted(functions):
        if NAMES_AN_ERROR.search(name):
            lines.append(f"const char* {name}(void) {{ return kName; }}")
        else:
            lines.append(f"long {name}(void) {{ return 100; }}")
    command = [zig(), "cc", "-target", target.triple, "-shared", "-nostdlib", "-fno-builtin", "-w"]
    command += ["-x", "c", "-", f"-Wl,-soname,{out.name}", "-o", str(out)]
    script = out.with_suffix(".map")
    if versions := sorted(set[str]().union(*functions.values())):
        members = {v: [n for n, known in functions.items() if v in known] for v in versions}
        blocks = [f"{v} {{ global: {' '.join(f'{n};' for n in members[v])} }};" for v in versions]
        script.write_text("\n".join(blocks))
        command.append(f"-Wl,--version-script={script}")
    subprocess.run(command, input="\n".join(lines), text=True, check=True)
    script.unlink(missing_ok=True)


def python_config(target: Target, is_free_threaded: bool) -> str:
    """Return a pyconfig.h with what Python's public headers read of it."""
    windows = target.system == "windows"
    sizes = {"INT": 4, "LONG": 4 if windows else 8, "LONG_LONG": 8, "VOID_P": 8, "SIZE_T": 8}
    sizes |= {"PID_T": 4, "WCHAR_T": 2 if windows else 4}
    names = ["STDDEF_H", "SYS_STAT_H", "SYS_TYPES_H", "THREAD_LOCAL", "WCHAR_H"]
    names += ["DECLSPEC_DLL"] if windows else ["CLOCK_GETTIME", "FORK", "PTHREAD_H", "SYS_TIME_H"]
    macros = {f"SIZEOF_{name}": size for name, size in sizes.items()}
    macros |= {f"HAVE_{name}": 1 for name in names} | {"WITH_THREAD": 1, "ALIGNOF_MAX_ALIGN_T": 16}
    own = ["MS_WINDOWS", "MS_WIN32", "MS_WIN64", "NT_THREADS", "Py_ENABLE_SHARED"]
    macros |= dict.fromkeys(own if windows else [], 1)
    macros |= {"Py_GIL_DISABLED": 1} if is_free_threaded else {}
    lines = [f"#define {name} {value}" for name, value in macros.items()]
    return "\n".join(["// Written by scripts/cross/targets.py.", "#pragma once", *lines, ""])


if __name__ == "__main__":  # as a rule of ninja: TARGET LIBRARY OBJECT ...
    write_import_library(TARGETS[sys.argv[1]], Path(sys.argv[2]), [*map(Path, sys.argv[3:])])
