"""A 64-bit ARM machine in a folder: Debian's packages, PyPI's wheels, and an emulator.

NOTE [ An ARM machine ]
Nothing is installed and nothing needs root, beyond one package of the host: qemu's emulator of user
programs. `make_machine()` leaves in build/cross/linux-aarch64/machine

    root/     Debian's packages for arm64, unpacked: Python and its libraries
    site/     aarch64 wheels of the packages that the tests import, of the versions found here
    python    runs root's Python under the emulator; its children do so too

The host's own package sources name the mirror, so the host has to be Debian; the root is of the
same release.

The emulator translates programs one instruction at a time and shows them the files of root first,
then those of the host. torch reads two files that x86 machines don't have; root gets them.

torch's aarch64 wheels name NVIDIA's libraries, gigabytes that a machine without a GPU never calls:
write_stubs() makes some that hold nothing.
"""

import hashlib
import importlib.metadata
import re
import shutil
import subprocess
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from cross.debian import unpack_packages
from cross.here import ROOT, download_wheels, fail, tool
from cross.targets import TARGETS, write_stub

TARGET = TARGETS["linux-aarch64"]
HOME = ROOT / "build" / "cross" / TARGET.name
MACHINE = HOME / "machine"
LIBRARY = HOME / "lib"
EMULATOR = "qemu-aarch64-static"
DEBIAN = ("python3", "libgomp1", "libstdc++6")
# What the tests of values import; what these need comes with them.
PACKAGES = (
    *("torch", "torchvision", "numpy", "pytest", "pytest-xdist", "hypothesis", "scipy"),
    *("opencv-python-headless", "scikit-image", "pycocotools", "ensemble-boxes", "kornia"),
    "albumentations",
)
# For GPUs only.
LEFT_OUT = ("nvidia-", "cuda-", "triton")
# The oldest Linux that each wheel may ask for.
PLATFORMS = (
    *("manylinux_2_28", "manylinux_2_27", "manylinux_2_26", "manylinux_2_24"),
    *("manylinux_2_17", "manylinux2014"),
)

# Whose functions begin how; the first that fits.
BEGINNINGS = {
    "libcudart.": r"(__)?cuda",
    "libcublasLt.": "cublasLt",
    "libcublas.": "cublas",
    "libcudnn.": "cudnn",
    "libcufft.": "cufft",
    "libcufile.": "cuFile",
    "libcusparseLt.": "cusparseLt",
    "libcusparse.": "cusparse",
    "libcusolver.": "cusolver",
    "libcurand.": "curand",
    "libnccl.": "p?nccl",
    "libnvrtc.": "nvrtc",
    "libcupti.": "cupti",
    "libnvshmem_host.": "nvshmem",
}
SYMBOL = re.compile(
    r"^\s*\d+: \S+\s+\S+\s+\S+\s+(?P<binding>\S+)\s+\S+\s+(?P<section>\S+)"
    r"\s+(?P<name>[^\s@]+)(?:@+(?P<version>\S+))?",
    re.MULTILINE,
)

# A Neoverse N1, as torch's own library for processors wants to read it.
FEATURES = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm asimddp"
CPU_INFO = f"""\
processor\t: 0
BogoMIPS\t: 243.75
Features\t: {FEATURES}
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1
"""
MIDR = "0x00000000413fd0c1\n"


def wanted_packages(names: tuple[str, ...] = PACKAGES, **system: str) -> dict[str, str]:
    """Return packages and what they need, with the versions that are installed here.

    `system` is what differs from this machine, by the names that packages know.
    """
    environment = cast(dict[str, str], default_environment())
    environment |= {"platform_machine": "aarch64", "extra": "", **system}
    found: dict[str, str] = {}
    left = list(names)
    while left:
        name = left.pop()
        try:
            package = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            fail(f"{name} is not installed here; run make build")
        key = canonicalize_name(package.metadata["Name"])
        if key in found:
            continue
        found[key] = package.version.partition("+")[0]
        for line in package.requires or []:
            requirement = Requirement(line)
            if requirement.name.lower().startswith(LEFT_OUT):
                continue
            if requirement.marker is None or requirement.marker.evaluate(environment):
                left.append(requirement.name)
    return found


def python_version(root: Path) -> str:
    """Return the version of root's Python: "3.11"."""
    return (root / "usr" / "bin" / "python3").resolve().name.removeprefix("python")


def unpack_wheels(site: Path, version: str, packages: Mapping[str, str]) -> None:
    """Download aarch64 wheels and unpack them, as pip would install them; replace NVIDIA's."""
    wheels = HOME / "wheels"
    names = [f"{name}=={number}" for name, number in packages.items()]
    download_wheels(wheels, [f"{name}_aarch64" for name in PLATFORMS], names, version)
    site.mkdir(parents=True)
    for wheel in wheels.glob("*.whl"):
        name, number, *_ = parse_wheel_filename(wheel.name)
        if packages.get(name) == str(number):
            zipfile.ZipFile(wheel).extractall(site)
    write_stubs(site / "torch" / "lib", site.glob("torchvision/*.so"))


def read_elf(library: Path, *options: str) -> str:
    command = ["readelf", "--wide", *options, str(library)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def write_stubs(folder: Path, others: Iterable[Path]) -> None:
    """Write the libraries that those in `folder` and others need, and that are nowhere, there."""
    libraries = [*sorted(folder.glob("*.so*")), *others]
    names = {library.name for library in libraries}
    needed: set[str] = set()
    defined: set[str] = set()
    undefined: dict[str, set[str]] = defaultdict(set)
    for library in libraries:
        text = read_elf(library, "--dynamic", "--dyn-syms")
        names.update(re.findall(r"SONAME\).*\[(.*)\]", text))
        needed.update(re.findall(r"NEEDED\).*\[(.*)\]", text))
        for match in SYMBOL.finditer(text):
            if match["section"] != "UND":
                defined.add(match["name"])
            elif match["binding"] != "WEAK":
                undefined[match["name"]].update(filter(None, [match["version"]]))
    functions: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for name in undefined.keys() - defined:
        for beginning, pattern in BEGINNINGS.items():
            if re.match(pattern, name):
                functions[beginning][name] = undefined[name]
                break
    for library_name in sorted(needed - names):
        if re.match(r"lib(cu|nv|nccl)", library_name):
            beginning = library_name.split(".")[0] + "."
            write_stub(TARGET, folder / library_name, functions[beginning])


def write_command(folder: Path) -> None:
    """Write `python`, and tell Python that this is how it was called."""
    command = folder / "python"
    # SVE is off: no processor should be needed that has it.
    command.write_text(
        "#!/bin/sh\n"
        f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{folder}/start:{folder}/site"\n'
        f"exec {EMULATOR} -cpu max,sve=off -L {folder}/root {folder}/root/usr/bin/python3 "
        '"$@"\n'
    )
    command.chmod(0o755)
    start = folder / "start"
    start.mkdir()
    (start / "sitecustomize.py").write_text(f"import sys\n\nsys.executable = {str(command)!r}\n")


def there(*arguments: str | Path, path: str | Path = LIBRARY) -> list[str | Path]:
    """Return a command for the ARM machine's Python, with what was built for it."""
    return ["env", f"PYTHONPATH={path}", "OMP_NUM_THREADS=2", MACHINE / "python", *arguments]


def make_machine() -> Path:
    """Return the ARM machine's Python; make the machine first, if its parts have changed."""
    tool(EMULATOR, "qemu-user-static")
    packages = wanted_packages()
    recipe = repr((sorted(packages.items()), str(ROOT)))
    for name in ("debian.py", "machine.py", "targets.py"):
        recipe += Path(__file__).with_name(name).read_text()
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    done = MACHINE / "made"
    if not done.is_file() or done.read_text() != digest:
        shutil.rmtree(MACHINE, ignore_errors=True)
        root = MACHINE / "root"
        unpack_packages(root, "arm64", DEBIAN)
        for name, text in {
            "proc/cpuinfo": CPU_INFO,
            "sys/devices/system/cpu/cpu0/regs/identification/midr_el1": MIDR,
        }.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        unpack_wheels(MACHINE / "site", python_version(root), packages)
        write_command(MACHINE)
        done.write_text(digest)
    return MACHINE / "python"
