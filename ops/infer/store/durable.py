"""Files that are complete or absent: written under a temporary name, synced, then renamed."""

import contextlib
import os
import secrets
import sys
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

if sys.platform == "win32":
    raise ImportError("visops.infer forks its workers and locks files as POSIX does; not Windows")

import fcntl

TEMPORARY = ".tmp"


@contextmanager
def atomic_file(path: str, *, sync_parent: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary file that is renamed to `path` when the block ends without an exception.

    Its temporary name is unique: two processes may write the same file, for example when one of
    them is taken for dead. To write many files into one folder, pass `sync_parent` False and sync
    the folder once.

    Raises
    ------
    OSError
        With `path` as its file name.
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
        # A failed write names no file, open and rename name the temporary one; others are not ours.
        if isinstance(error, OSError) and error.filename in (None, temporary):
            raise named(error, path) from error
        raise
    if sync_parent:
        sync_folder(folder)


def write_atomically(path: str, data: bytes, *, sync_parent: bool = True) -> None:
    """Write the whole file, or leave the old one untouched."""
    with atomic_file(path, sync_parent=sync_parent) as file:
        file.write(data)


def sync_folder(folder: str) -> None:
    """Make renames within a folder durable, where the file system can sync folders."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(path: str, *, sync: bool = True) -> None:
    """Make a folder and its missing parents; with `sync`, make their names durable.

    Unlike ``os.makedirs``, it is no recursion: paths may have thousands of parts.
    """
    missing, above = [], path
    while above and not os.path.isdir(above):
        missing.append(above)
        above = os.path.dirname(above)
    for folder in reversed(missing):
        try:
            os.mkdir(folder)
        except FileExistsError:
            if not os.path.isdir(folder):  # else another thread or process was faster
                raise
    if sync:
        for folder in missing:
            sync_folder(os.path.dirname(folder) or os.curdir)


def sync_below(top: str, folders: Iterable[str]) -> None:
    """Make the entries of some folders below `top` durable, and the folders' own names.

    All folders in between are synced too, even if another process made them: it may not have synced
    them yet.

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
    """Remove the temporary files of killed processes; no process may be writing there."""
    folders = [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as found:
                items = list(found)
        except OSError:  # there is no such folder, or it can't be listed
            continue
        for item in items:
            stem, suffix = os.path.splitext(item.name)
            if item.is_dir(follow_symlinks=False):
                if below:
                    folders.append(item.path)
            elif suffix == TEMPORARY and len(stem) == 16 and set(stem) <= set("0123456789abcdef"):
                _remove(item.path)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Add this path to any OSError in the block that names no file."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise named(error, path) from error
        raise


def named(error: OSError, path: str) -> OSError:
    """Return the same error with the file's path: failed reads and writes name no file."""
    return OSError(error.errno, error.strerror or str(error), path)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


# Files that this process locks, without its forked children keeping the lock.

_held: "weakref.WeakSet[LockedFile]" = weakref.WeakSet()


class LockedFile:
    """A file open for appending, with a lock that ends with this process, however that ends.

    Every copy of the descriptor holds the lock, and a fork has one: decoding workers would hold it
    for seconds after their parent was killed. So forks close their copy, which leaves the parent's
    lock in place. Writes are unbuffered, or a fork would also copy pending data.

    Parameters
    ----------
    path : str
        Created if missing.
    """

    def __init__(self, path: str) -> None:
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115  # closed by close()
        _held.add(self)

    def lock(self, *, shared: bool = False, wait: bool = False) -> bool:
        """Take the lock, or change its kind; return False if the file system has no locks.

        Raises
        ------
        BlockingIOError
            Another process, or another object in this one, holds it; never with `wait`.
        """
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self._file, kind if wait else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            return False
        return True

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        self._file.truncate(size)

    def append(self, data: bytes) -> None:
        """Write all the data, and wait until it is on the disk."""
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file and release the lock."""
        with contextlib.suppress(OSError):
            self._file.close()


def _close_in_child() -> None:
    for file in list(_held):
        file.close()


os.register_at_fork(after_in_child=_close_in_child)
