"""Files that are whole or not there: written beside their place, synced, then renamed."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

__all__ = [
    "atomic_file",
    "make_folders",
    "naming",
    "remove_leftovers",
    "sync_below",
    "sync_folder",
    "write_atomically",
]

TEMPORARY = ".tmp"


@contextmanager
def atomic_file(path: str, *, sync_parent: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary file that takes the name `path` when the block ends without an exception.

    Its own name is like no other's: two processes may write the same file, such as where one is
    thought dead. Whoever writes many files into one folder syncs that once, with `sync_parent`
    False.

    Raises
    ------
    OSError
        Naming `path`.
    """
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, secrets.token_hex(8) + TEMPORARY)
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        _remove(temporary)
        # Writes name no file, and others only the temporary one; what names another is not ours.
        if isinstance(error, OSError) and error.filename in (None, temporary):
            raise named(error, path) from error
        raise
    if sync_parent:
        sync_folder(folder)


def write_atomically(path: str, data: bytes, *, sync_parent: bool = True) -> None:
    """Write a whole file, or leave what was there."""
    with atomic_file(path, sync_parent=sync_parent) as file:
        file.write(data)


def sync_folder(folder: str) -> None:
    """Make renames within a folder last; a file system that can't sync folders needs none."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(path: str) -> None:
    """Make a folder, and those above it that aren't there, and make their names last."""
    above, missing = path, []
    while not os.path.isdir(above):
        above = os.path.dirname(above) or os.curdir
        missing.append(above)
    os.makedirs(path, exist_ok=True)
    for folder in missing:
        sync_folder(folder)


def sync_below(top: str, folders: Iterable[str]) -> None:
    """Make the names in some folders below another one last, and their own names.

    All between are synced, whoever has made them: who did may not have come to it yet.

    Parameters
    ----------
    top : str
    folders : iterable of str
        Relative to `top`.
    """
    wanted = set()
    for folder in folders:
        while folder not in wanted:
            wanted.add(folder)
            folder = os.path.dirname(folder)
    for folder in sorted(wanted):
        sync_folder(os.path.join(top, folder))


def remove_leftovers(folder: str, *, below: bool = True) -> None:
    """Remove the temporary files of killed processes; nobody may be writing there."""
    for parent, _, names in os.walk(folder):
        for name in names:
            stem, suffix = os.path.splitext(name)
            if suffix == TEMPORARY and len(stem) == 16 and set(stem) <= set("0123456789abcdef"):
                _remove(os.path.join(parent, name))
        if not below:
            return


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Within it, errors of writing that name no file name this one."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise named(error, path) from error
        raise


def named(error: OSError, path: str) -> OSError:
    """Return the same error, of the file that was to be written: writes themselves name none."""
    return OSError(error.errno, error.strerror or str(error), path)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
