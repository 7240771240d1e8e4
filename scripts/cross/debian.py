"""Debian's packages and sources, downloaded and unpacked into folders; nothing is installed."""

import re
from pathlib import Path

from cross.here import ROOT, fail, run, tool

STATE = ROOT / "build" / "cross" / "apt"


def own_source() -> Path:
    """Return a file that names Debian's mirror: the host's own."""
    given = [Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")]
    own = next((file for file in given if file.is_file() and "debian" in file.read_text()), None)
    if own is None:
        fail("no package source of Debian in /etc/apt; run this on Debian or in its container")
    return own


def apt_get(kind: str) -> list[str]:
    """Return the command for packages of a machine ("arm64") or "source", with its lists read."""
    state = STATE / kind
    for folder in ("state/lists/partial", "cache/archives/partial", "log"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "status").write_text("")  # nothing is installed: everything needed is downloaded
    source = own_source()
    if kind == "source":
        text = re.sub(r"^(Types: )?deb(?=\s)", r"\1deb-src", source.read_text(), flags=re.MULTILINE)
        source = state / source.name
        source.write_text(text)
    options = {
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "1",
        "Dir::Cache": str(state / "cache"),
        "Dir::Etc::sourcelist": str(source),
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Log": str(state / "log"),
        "Dir::State": str(state / "state"),
        "Dir::State::status": str(state / "status"),
    }
    if kind != "source":
        options |= {"APT::Architecture": kind, "APT::Architectures": kind}
    words = [f"-o{name}={value}" for name, value in options.items()]
    command = [str(tool("apt-get", "apt")), "-q", *words]
    run(*command, "update")
    return command


def unpack_packages(root: Path, machine: str, packages: tuple[str, ...]) -> None:
    """Download packages for a machine, with what they need, and unpack them."""
    root.mkdir(parents=True, exist_ok=True)
    install = ("install", "--download-only", "--yes", "--no-install-recommends")
    run(*apt_get(machine), *install, *packages)
    for package in sorted((STATE / machine / "cache" / "archives").glob("*.deb")):
        run("dpkg-deb", "-x", package, root)


def unpack_source(folder: Path, package: str) -> None:
    """Download the sources of a package and unpack them, with Debian's patches."""
    archives = STATE / package
    archives.mkdir(parents=True, exist_ok=True)
    # It downloads into the folder that it runs in.
    there = ("env", f"--chdir={archives}")
    run(*there, *apt_get("source"), "source", "--download-only", package)
    (description,) = archives.glob("*.dsc")
    run("dpkg-source", "--no-check", "--extract", description, folder)
