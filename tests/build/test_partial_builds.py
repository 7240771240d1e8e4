"""VISOPS_ISA: builds with the kernels of some instruction sets."""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import fresh
import pytest
import visops

pytest.importorskip("pybind11", reason="the build's own packages are not installed")
import build_toolchain as build

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(visops.__file__).parent
AVX2 = ("AVX2", "FMA", "F16C")
AVX512 = (*AVX2, "AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL")

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="compilers are played by shell scripts"),
    pytest.mark.skipif(
        platform.machine().lower() not in ("x86_64", "amd64"), reason="one instruction set only"
    ),
]


def compiler_for(folder: Path, macros: tuple[str, ...], status: int = 0) -> list[str]:
    """A compiler that defines these macros for -march=native, and can do nothing else."""
    script = folder / "c++"
    lines = "".join(f"#define __{macro}__ 1\\n" for macro in macros)
    script.write_text(
        f'#!/bin/sh\n[ "$1" = -march=native ] || exit 1\nprintf "{lines}"\nexit {status}\n'
    )
    script.chmod(0o755)
    return [str(script)]


@pytest.mark.parametrize(
    ("macros", "best"),
    [
        ((), "default"),
        (("AVX", "SSE4_2"), "default"),
        (AVX2[:2], "default"),
        (AVX2, "avx2"),
        (AVX512[:-1], "avx2"),
        ((*AVX512, "AVX512VNNI"), "avx512"),
    ],
)
def test_native_is_the_processors_best(
    macros: tuple[str, ...], best: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = compiler_for(tmp_path, macros)
    monkeypatch.delenv("VISOPS_ISA", raising=False)
    complete = build.isa_levels(compiler)
    assert list(complete) == ["default", "avx2", "avx512"]
    monkeypatch.setenv("VISOPS_ISA", "native")
    assert build.isa_levels(compiler) == {best: complete[best]}


def test_native_is_what_the_library_chooses() -> None:
    code = "import visops; print(visops.build_info()['cpu'])"
    chosen = fresh.run(code, check=True, VISOPS_CPU=None)
    assert build.native_isa(build.find_compiler()) == chosen.stdout.strip()


@pytest.mark.parametrize(
    ("macros", "is_gcc"), [(("GNUC",), True), (("GNUC", "clang"), False), ((), False)]
)
def test_flags_that_only_gcc_knows(macros: tuple[str, ...], is_gcc: bool, tmp_path: Path) -> None:
    lines = "".join(f"#define __{macro}__ 12\\n" for macro in macros)
    script = tmp_path / "c++"
    script.write_text(f'#!/bin/sh\nprintf "{lines}"\n')
    script.chmod(0o755)
    assert build.is_gcc([str(script)]) == is_gcc


@pytest.mark.skipif(sys.platform != "linux", reason="linkers of Linux")
@pytest.mark.parametrize("linkers", [("gold", "lld"), ("lld",), ()])
def test_a_linker_that_folds_functions(
    linkers: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LDFLAGS", raising=False)
    script = tmp_path / "c++"
    known = "".join(f'[ "$word" = -fuse-ld={linker} ] && exit 0\n' for linker in linkers)
    script.write_text(f'#!/bin/sh\nfor word in "$@"; do\n:\n{known}done\nexit 1\n')
    script.chmod(0o755)
    wanted = [f"-fuse-ld={linkers[0]}", "-Wl,--icf=safe"] if linkers else []
    assert build.folding_flags([str(script)]) == wanted
    monkeypatch.setenv("LDFLAGS", "-fuse-ld=bfd")  # which may not know the option
    assert build.folding_flags([str(script)]) == []


def test_files_with_flags_of_their_own_are_there() -> None:
    from build_extensions import FAST_FRONTS
    from build_ninja import AVX2_SUFFICES, LEAN

    assert all((ROOT / path).is_file() for path in FAST_FRONTS | LEAN | AVX2_SUFFICES)


class Compiled:
    """What cpu_kernels() asks of a ninja file: keeps the sources by instruction set."""

    def __init__(self) -> None:
        self.compiler = build.find_compiler()
        self.sources: dict[str, set[str]] = {}

    def objects(self, folder: str, files: list[Path], flags: list[str]) -> list[Path]:
        self.sources.setdefault(folder, set()).update(file.as_posix() for file in files)
        return files


@pytest.mark.parametrize("isa", ["", "avx512", "default,avx512", "avx2,avx512"])
def test_avx2_objects_serve_avx512_where_both_are_built(
    isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from build_ninja import AVX2_SUFFICES, cpu_kernels

    monkeypatch.setenv("VISOPS_ISA", isa)
    compiled: Any = Compiled()
    cpu_kernels(compiled)
    everything = compiled.sources["default" if "default" in compiled.sources else "avx512"]
    if "avx2" not in compiled.sources:
        assert compiled.sources["avx512"] == everything >= AVX2_SUFFICES
        return
    assert compiled.sources["avx2"] >= AVX2_SUFFICES
    assert compiled.sources["avx512"] == compiled.sources["avx2"] - AVX2_SUFFICES


def test_only_these_lack_an_avx512_kernel() -> None:
    from build_ninja import AVX2_SUFFICES

    core = "\n".join(path.read_text() for path in (ROOT / "csrc/core").rglob("*.*"))
    names = dict(re.findall(r'(\w+)_stub[({]\s*"(\w+)"', core))
    stubs = {
        names[stub]
        for path in AVX2_SUFFICES
        for stub in re.findall(r"(\w+)_stub\.set\(", (ROOT / path).read_text())
    }
    assert len(stubs) >= len(AVX2_SUFFICES)
    kernels = visops.build_info()["kernels"]
    if not any("avx512" in slots for slots in kernels.values()):
        pytest.skip("this build has no AVX-512 kernels")
    if any("avx2" in slots for slots in kernels.values()):
        on_cpu = {name: slots for name, slots in kernels.items() if "default" in slots}
        assert {name for name, slots in on_cpu.items() if "avx512" not in slots} == stubs


@pytest.mark.parametrize("value", ["avx3", "native,avx2", "avx2,native"])
def test_unknown_values(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISOPS_ISA", value)
    message = f"VISOPS_ISA={value} is not known; it can be native, or hold default, avx2, avx512"
    with pytest.raises(SystemExit, match=f"^visops: {message}$"):
        build.isa_levels(["no compiler is needed"])


def test_compilers_without_native(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISOPS_ISA", "native")
    with pytest.raises(SystemExit, match=r"does not know -march=native; name the slots instead$"):
        build.isa_levels(compiler_for(tmp_path, AVX2, status=1))


# Kernels for the instruction sets named in BUILT, on a processor with the features in HAS.
PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "core/dispatch/kernel_stub.h"

struct Params {};
visops::KernelStub<Params> stub("some");

int main() {
  for (visops::Slot slot : {visops::Slot::kDefault, visops::Slot::kAvx2, visops::Slot::kAvx512}) {
    const visops::KernelStub<Params>::Kernel kernel = [](const Params&, visops::Workspace&) {};
    if (std::strstr(std::getenv("BUILT"), visops::slot_name(slot))) stub.set(slot, kernel);
  }
  for (visops::Slot slot : visops::available_cpu_slots()) {
    std::printf("%s ", visops::slot_name(slot));
  }
  try {
    std::printf("-> %s", visops::slot_name(visops::cpu_slot()));
    stub.cpu();
  } catch (const std::exception& error) {
    std::printf("%s", error.what());
  }
}
"""
FEATURES = r"""
#include <cpuid.h>
#include <cstdlib>
#include <cstring>
static int features(unsigned leaf, unsigned* b, unsigned* c) {
  const char* const has = std::getenv("HAS");
  const auto bit = [has](const char* name, unsigned mask) {
    return std::strstr(has, name) != nullptr ? mask : 0;
  };
  *c = bit_OSXSAVE | bit("fma", bit_FMA) | bit("f16c", bit_F16C);
  *b = leaf != 7 ? 0 : bit("avx2", bit_AVX2) | bit("avx512f", bit_AVX512F) |
      bit("avx512bw", bit_AVX512BW) | bit("avx512dq", bit_AVX512DQ) | bit("avx512vl", bit_AVX512VL);
  return 1;
}
#define __get_cpuid(leaf, a, b, c, d) features(leaf, b, c)
#define __get_cpuid_count(leaf, more, a, b, c, d) features(leaf, b, c)
"""


def built_chooser(folder: Path, features: str) -> Path:
    """The program above, with the library's own choice of kernels."""
    if shutil.which("c++") is None:
        pytest.skip("c++ is not installed")
    (folder / "main.cpp").write_text(PROGRAM)
    (folder / "processor.h").write_text(features)
    (folder / "visops_build.h").write_text(
        '#define VISOPS_BUILD ""\n#define VISOPS_CUDA_LIBRARY ""\n#define VISOPS_CUDA_MAJOR 0\n'
        '#define VISOPS_TORCH_INDEX ""\n'
    )
    core = ROOT / "csrc" / "core" / "dispatch"
    sources = [core / f"{name}.cpp" for name in ("kernel_stub", "cuda_library", "shared_library")]
    command = ["c++", "-std=c++17", "-O0", "-static", f"-I{ROOT / 'csrc'}", f"-I{folder}"]
    command += ["-include", str(folder / "processor.h"), str(folder / "main.cpp")]
    subprocess.run(
        [*command, *map(str, sources), "-ldl", "-o", str(folder / "chooser")], check=True
    )
    return folder / "chooser"


@pytest.fixture(scope="module")
def chooser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the features in HAS."""
    return built_chooser(tmp_path_factory.mktemp("chooser"), FEATURES)


@pytest.mark.parametrize(
    ("cpu", "built", "printed"),
    [
        ("Nehalem", "default,avx2,avx512", "default -> default"),
        ("Nehalem", "avx2,avx512", "this build has kernels for avx2, avx512 alone, which this"),
        ("max,-fma", "default,avx2", "default -> default"),
        ("max,-xsave", "default,avx2", "default -> default"),
        ("max", "default,avx2,avx512", "default avx2 -> avx2"),  # qemu 7.2 has no AVX-512
    ],
)
def test_what_emulated_processors_say(cpu: str, built: str, printed: str, tmp_path: Path) -> None:
    emulator = shutil.which("qemu-x86_64-static")
    if emulator is None:
        pytest.skip("qemu-user-static is not installed")
    program = built_chooser(tmp_path, "")
    command = [emulator, "-cpu", cpu, str(program)]
    run = subprocess.run(command, env={"BUILT": built}, capture_output=True, text=True)
    assert printed in run.stdout


ALONE = (
    "visops: this build has kernels for {} alone, which this processor can't run; build it "
    "without VISOPS_ISA"
)


@pytest.mark.parametrize(
    ("built", "cpu", "printed"),
    [
        ("default,avx2,avx512", "avx512", "default avx2 avx512 -> avx512"),
        ("default,avx2,avx512", "avx2", "default avx2 -> avx2"),
        ("default,avx2,avx512", "default", "default -> default"),
        ("default,avx512", "avx2", "default -> default"),
        ("default,avx2", "avx512", "default avx2 -> avx2"),
        ("avx512", "avx512", "avx512 -> avx512"),
        ("avx2", "avx512", "avx2 -> avx2"),
        ("avx512", "avx2", ALONE.format("avx512")),
        ("avx2,avx512", "default", ALONE.format("avx2, avx512")),
    ],
)
def test_choice_among_what_is_built(built: str, cpu: str, printed: str, chooser: Path) -> None:
    if (
        "avx512" in printed.partition("->")[0]
        and "avx512f" not in Path("/proc/cpuinfo").read_text()
    ):
        pytest.skip("the system does not keep such registers")
    features = {"default": "", "avx2": "avx2 fma f16c", "avx512": "avx2 fma f16c avx512f bw dq vl"}[
        cpu
    ]
    features = re.sub(r" (bw|dq|vl)", r" avx512\1", features)
    environment = {"BUILT": built, "HAS": features}
    run = subprocess.run([chooser], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == printed


def test_a_library_without_default_kernels(tmp_path: Path) -> None:
    """Linked from this build's objects, without those of other slots."""
    best = build.native_isa(build.find_compiler())
    ninja = ROOT / "build" / "ninja" / "build.ninja"
    if best == "default" or not ninja.exists():
        pytest.skip("the build tree is not there")
    rule = re.search(
        r"^build \S+/libvisops\.so: link (.+)\n  flags = (.+)$", ninja.read_text(), re.M
    )
    assert rule is not None
    others = {"default", "avx2", "avx512", "emulated"} - {best}
    objects = [path for path in rule[1].split() if path.split("/")[2] not in others]
    shutil.copytree(
        PACKAGE, tmp_path / "visops", ignore=shutil.ignore_patterns("__pycache__", "lib*.so")
    )
    library = tmp_path / "visops" / "lib" / "libvisops.so"
    library.parent.mkdir(exist_ok=True)
    link = f"{' '.join(build.find_compiler())} {' '.join(objects)} {rule[2]} -o {library}"
    subprocess.run(link.replace("$$", "$"), shell=True, cwd=ROOT, check=True)
    code = f"""
import sys
sys.meta_path = [f for f in sys.meta_path if not f.__module__.startswith("__editable__")]
import torch, visops
assert visops.__file__.startswith({str(tmp_path)!r})
info = visops.build_info()
kinds = {{name for slots in info["kernels"].values() for name in slots}}
print(info["cpu"], info["cpu_available"], kinds)
image = torch.arange(12.0).reshape(1, 1, 3, 4)
print(torch.equal(visops.warp_affine(image, torch.eye(2, 3)), image))
"""

    def run(cpu: str | None) -> subprocess.CompletedProcess[str]:
        return fresh.run(code, cwd=tmp_path, PYTHONPATH=str(tmp_path), VISOPS_CPU=cpu)

    assert run(None).stdout == f"{best} ['{best}'] {{'{best}'}}\nTrue\n"
    message = "VISOPS_CPU=default is not available; this build on this processor has: "
    assert message + best in run("default").stderr
