"""The wheel for 64-bit ARM: cross-compiled, audited, and tried in the emulator."""

import re
import shutil
from pathlib import Path

from arm.build import compile_with, here, there
from arm.machine import (
    HOME,
    LIBRARIES,
    MACHINE,
    PLATFORMS,
    ROOT,
    fail,
    python_version,
    run,
    unpack_wheels,
)

# Beside which the wheel is tried: the oldest, and the newest. torchvision fits one torch each.
TORCHES = (
    {"torch": "2.11.0", "torchvision": "0.26.0"},
    {"torch": "2.15.0", "torchvision": "0.29.2"},
)
# Operators, masks' bits, gradients of a warp, arrays past torch's dispatcher, JPEG.
TESTS = (
    "tests/suppression/test_nms.py",
    "tests/masks/test_packed.py",
    "tests/warp/test_remap.py",
    "tests/warp/test_affine_exact.py",
    "tests/jpeg/test_decode.py",
)
NEWEST_GLIBC = 28


def build_wheel() -> Path:
    """Return the wheel, audited and repaired."""
    raw, done = HOME / "wheel-raw", HOME / "wheel"
    for folder in (raw, done, HOME / "wheel-lib", *(ROOT / "build").glob("bdist*")):
        shutil.rmtree(folder, ignore_errors=True)
    compile_with("build", "--build-lib", HOME / "wheel-lib", "bdist_wheel", "--dist-dir", raw)
    (wheel,) = raw.glob("*.whl")
    # auditwheel looks for libjpeg there, to put it into the wheel.
    libraries = MACHINE / "sysroot" / LIBRARIES
    repair = here("scripts/wheels.py", "repair", wheel, done)
    print(run(*repair, LD_LIBRARY_PATH=str(libraries)), end="")
    (wheel,) = done.glob("*.whl")
    glibc = re.search(r"manylinux_2_(\d+)_aarch64", wheel.name)
    if glibc is None or int(glibc[1]) > NEWEST_GLIBC:
        fail(f"{wheel.name} needs a newer glibc than 2.{NEWEST_GLIBC}, which is torch's")
    return wheel


def install_wheel(wheel: Path) -> Path:
    """Let pip install it, if its tags suit the ARM machine; return the folder."""
    site = HOME / "wheel-site"
    shutil.rmtree(site, ignore_errors=True)
    options: list[str | Path] = ["--quiet", "--no-deps", "--only-binary=:all:", "--target", site]
    options += [f"--python-version={python_version(MACHINE / 'root')}"]
    options += [f"--platform={name}_aarch64" for name in PLATFORMS]
    run(*here("-m", "pip", "install", *options, wheel))
    return site


def try_wheel(wheel: Path) -> str:
    """Run the README's example, `python -m visops` and some tests beside several torches."""
    site = install_wheel(wheel)
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    if example is None:
        fail("README.md has no example")
    program = HOME / "readme.py"
    program.write_text(example[1])
    passed = []
    for packages in TORCHES:
        folder = MACHINE / f"torch-{packages['torch']}"
        if not folder.exists():
            unpack_wheels(folder, python_version(MACHINE / "root"), packages)
        path = f"{site}:{folder}"
        run(*there(program, path=path))
        print(run(*there("-m", "visops", path=path)))
        options = ("-q", "-p", "no:cacheprovider", "-m", "not cluster and not cuda")
        done = run(*there("-m", "pytest", *options, *TESTS, path=path))
        passed.append(f"torch {packages['torch']}: {done.strip().splitlines()[-1]}")
    return f"{wheel.name}, {wheel.stat().st_size / 2**20:.1f} MiB; " + "; ".join(passed)
