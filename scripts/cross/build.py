"""Builds visops for one of the four systems, into a folder or for a wheel."""

import os
from pathlib import Path

from cross.here import ROOT, here, run
from cross.jpeg import jpeg_for
from cross.targets import Target


def build_variables(target: Target) -> dict[str, str]:
    """Return the environment in which setup.py builds for a target."""
    variables = {"VISOPS_TARGET": target.name, "VISOPS_EMULATION": "0"}
    variables["VISOPS_WERROR"] = os.environ.get("VISOPS_WERROR", "1")
    variables["VISOPS_JPEG"] = "1"
    if target.compiled_by_zig:
        jpeg = jpeg_for(target)
        variables |= {"CPATH": str(jpeg / "include"), "LDFLAGS": f"-L{jpeg / 'lib'}"}
    if target.system == "windows":  # what was tested there, and 3 MiB less
        variables["VISOPS_ISA"] = "default,avx2"
    return variables


def compile_for(target: Target) -> Path:
    """Build the libraries and `_native` without CUDA kernels; return the package's folder."""
    folder = ROOT / "build" / "cross" / target.name / "lib"
    options = ("build", "--build-lib", folder)
    run(*here("setup.py", "--quiet", *options), **build_variables(target), VISOPS_CUDA="0")
    return folder / "visops"
