"""Files that are whole or not there: written beside their place, synced, then renamed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

__all__ = ["atomic_file", "sync_folder", "write_atomically"]

TEMPORARY = ".tmp"


@contextmanager
def atomic_file(path: str, *, sync_parent: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary file that takes the name `path` when the block ends without an exception.

    Its own name is always the same, so that what a killed process has left is overwritten. Whoever
    writes many files into one folder syncs that once, with `sync_parent` False.
    """
    folder, name = os.path.split(path)
    # A name may be as long as a file system allows, with no room for a suffix.
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:24]
    temporary = os.path.join(folder, digest + TEMPORARY)
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        _remove(temporary)
        raise named(error, path) from error
    except BaseException:
        _remove(temporary)
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
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def named(error: OSError, path: str) -> OSError:
    """Return the same error, of the file that was being written: writes themselves name none."""
    return error if error.filename else OSError(error.errno, error.strerror, path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
