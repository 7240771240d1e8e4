"""Files that this process locks, without its forked children keeping the lock."""

import contextlib
import os
import sys
import weakref

if sys.platform == "win32":
    raise ImportError("visops.infer forks its workers and locks files as POSIX does; not Windows")

import fcntl

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
