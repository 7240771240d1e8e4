"""A 64-bit ARM machine in a folder: Debian's packages, PyPI's wheels, and an emulator.

NOTE [ An ARM machine ]
Nothing is installed and nothing needs root, beyond two packages of the host: the cross compiler and
qemu's emulator of user programs. `make_machine()` leaves in build/arm/machine

    root/     Debian's packages for arm64, unpacked: Python, the C and C++ libraries
    sysroot/  what is compiled and linked with: NOTE [ The oldest Linux ]
    site/     aarch64 wheels of the packages that the tests import, of the versions found here
    python    runs root's Python under the emulator; its children do so too

The host's own package sources name the mirror, so the host has to be Debian; the root is of the
same release, whose cross compiler has the same C++ library.

NOTE [ The oldest Linux ]
A library asks for the versions of the C library's functions that it was linked with, so it is
linked with an older Debian's. That is glibc 2.31; what it has newer than 2.28 is named by its old
version, with a library from stub_libraries.py. The C++ library is the compiler's; what we take of
it is older still.

The emulator translates programs one instruction at a time and shows them the files of root first,
then those of the host. torch reads two files that x86 machines don't have; root gets them.

torch's aarch64 wheels name NVIDIA's libraries, gigabytes that a machine without a GPU never calls:
stub_libraries.py makes some that hold nothing.
"""

import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, cast

from arm.stub_libraries import write_stub, write_stubs
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "arm"
MACHINE = HOME / "machine"
EMULATOR = "qemu-aarch64-static"
COMPILER = "aarch64-linux-gnu-g++"
DEBIAN = ("python3", "libpython3-dev", "libgomp1", "libstdc++6", "libjpeg62-turbo")
OLD_RELEASE = "bullseye"
OLD_DEBIAN = ("libc6-dev", "libjpeg62-turbo-dev")
# Since 2.29 they leave errno alone; results are the same.
OLD_NAMES = {"exp": {"GLIBC_2.17"}, "log2": {"GLIBC_2.17"}}
LIBRARIES = Path("usr/lib/aarch64-linux-gnu")  # in a root
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


def fail(message: str) -> NoReturn:
    """Stop with one line."""
    raise SystemExit(f"test-arm: {message}")


def run(*command: str | Path, **variables: str) -> str:
    """Run a command in the repository and return what it prints; stop if it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        fail(f"{done.stdout[-4000:]}\nfailed: {' '.join(map(str, command))}")
    return done.stdout


def tool(name: str, package: str) -> Path:
    """Return a program of the host."""
    path = shutil.which(name)
    return Path(path) if path else fail(f"{name} is missing; on Debian: apt install {package}")


def wanted_packages(names: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    """Return packages and what they need, with the versions that are installed here."""
    environment = cast(dict[str, str], default_environment())
    environment |= {"platform_machine": "aarch64", "extra": ""}
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


def debian_source(release: str | None) -> Path:
    """Return a file that names Debian's mirror: the host's own, or one for another release."""
    given = [Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")]
    own = next((file for file in given if file.is_file() and "debian" in file.read_text()), None)
    if own is None:
        fail("no package source of Debian in /etc/apt; run this on Debian or in its container")
    if release is None:
        return own
    mirror = re.search(r"https?://\S+/debian/?(?=\s)", own.read_text())
    if mirror is None:
        fail(f"{own} names no mirror of Debian")
    source = HOME / f"{release}.list"
    source.write_text(f"deb {mirror[0]} {release} main\n")
    return source


def unpack_debian(root: Path, packages: tuple[str, ...], release: str | None = None) -> None:
    """Download Debian's packages for arm64 and unpack them; by default of the host's release."""
    root.mkdir(parents=True, exist_ok=True)
    state = HOME / f"apt-{release or 'host'}"
    for folder in ("state/lists/partial", "cache/archives/partial", "log"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "status").write_text("")  # nothing is installed: everything needed is downloaded
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "1",
        "Dir::Cache": str(state / "cache"),
        "Dir::Etc::sourcelist": str(debian_source(release)),
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Log": str(state / "log"),
        "Dir::State": str(state / "state"),
        "Dir::State::status": str(state / "status"),
    }
    apt = [
        str(tool("apt-get", "apt")),
        "-q",
        *[f"-o{name}={value}" for name, value in options.items()],
    ]
    run(*apt, "update")
    run(*apt, "install", "--download-only", "--yes", "--no-install-recommends", *packages)
    for package in sorted((state / "cache" / "archives").glob("*.deb")):
        run("dpkg-deb", "-x", package, root)


def python_version(root: Path) -> str:
    """Return the version of root's Python: "3.11"."""
    return (root / "usr" / "bin" / "python3").resolve().name.removeprefix("python")


def unpack_wheels(site: Path, version: str, packages: Mapping[str, str]) -> None:
    """Download aarch64 wheels and unpack them, as pip would install them; replace NVIDIA's."""
    wheels = HOME / "wheels"
    names = [f"{name}=={number}" for name, number in packages.items()]
    platforms = [f"--platform={name}_aarch64" for name in PLATFORMS]
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--implementation=cp"]
    options += [f"--python-version={version}", *platforms, "--dest", str(wheels)]
    run(sys.executable, "-m", "pip", "download", *options, *names)
    site.mkdir(parents=True)
    for wheel in wheels.glob("*.whl"):
        name, number, *_ = parse_wheel_filename(wheel.name)
        if packages.get(name) == str(number):
            zipfile.ZipFile(wheel).extractall(site)
    write_stubs(site / "torch" / "lib", site.glob("torchvision/*.so"), COMPILER)


def make_sysroot(sysroot: Path, root: Path) -> None:
    """Make what is compiled and linked with: an old C library, and root's Python's headers."""
    unpack_debian(sysroot, OLD_DEBIAN, OLD_RELEASE)
    for python in (root / "usr" / "include").rglob("python3*"):
        if python.is_dir():
            shutil.copytree(python, sysroot / python.relative_to(root), dirs_exist_ok=True)
    for link in (sysroot / LIBRARIES).glob("*.so"):
        if link.is_symlink() and os.readlink(link).startswith("/"):  # as the ARM machine sees it
            target = sysroot / os.readlink(link)[1:]
            link.unlink()
            link.symlink_to(target)
    old = sysroot / "old-names" / "libm.so.6"
    old.parent.mkdir()
    write_stub(old, OLD_NAMES, COMPILER)
    (sysroot / LIBRARIES / "libm.so").unlink()
    (sysroot / LIBRARIES / "libm.so").write_text(
        f"GROUP ( /{old.relative_to(sysroot)} /lib/aarch64-linux-gnu/libm.so.6 )\n"
    )


def compiler_command() -> list[str]:
    """Return the cross compiler that sees the old C library and not its own.

    Debian's looks at its own headers and libraries before those of a sysroot.
    """
    listed = subprocess.run(
        [COMPILER, "-E", "-v", "-x", "c++", os.devnull], capture_output=True, text=True, check=True
    ).stderr
    folders = listed.partition("<...> search starts here:\n")[2].partition("End of")[0].split()
    folders = [os.path.normpath(folder) for folder in folders]
    kept = [folder for folder in folders if "/c++/" in folder or "/gcc" in folder]
    sysroot = MACHINE / "sysroot"
    headers = [*kept, sysroot / "usr/include/aarch64-linux-gnu", sysroot / "usr/include"]
    command = [COMPILER, f"--sysroot={sysroot}", "-nostdinc"]
    for folder in headers:
        command += ["-isystem", str(folder)]
    return [*command, f"-L{sysroot / LIBRARIES}", f"-L{sysroot / 'lib/aarch64-linux-gnu'}"]


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


def make_machine() -> Path:
    """Return the ARM machine's Python; make the machine first, if its parts have changed."""
    tool(EMULATOR, "qemu-user-static")
    tool(COMPILER, "g++-aarch64-linux-gnu")
    packages = wanted_packages()
    recipe = repr((sorted(packages.items()), str(ROOT)))
    for name in ("machine.py", "stub_libraries.py"):
        recipe += Path(__file__).with_name(name).read_text()
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    done = MACHINE / "made"
    if not done.is_file() or done.read_text() != digest:
        shutil.rmtree(MACHINE, ignore_errors=True)
        root = MACHINE / "root"
        unpack_debian(root, DEBIAN)
        make_sysroot(MACHINE / "sysroot", root)
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
