"""The inputs: every file below a folder, in an order that depends only on names."""

import heapq
import os
import stat
from collections.abc import Iterable

from ..store.plan import Entry

IMAGE_SUFFIXES = frozenset(
    (".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
)


def list_images(
    folder: str | os.PathLike[str], *, leave_out: str | os.PathLike[str] | None = None
) -> list[Entry]:
    """List every file below a folder, sorted by the bytes of the relative path.

    Links to folders are followed, but each folder is listed once: under its own name if it lies
    below `folder`, else under the first link to it. So loops end.

    Parameters
    ----------
    folder : path
    leave_out : path, optional
        A folder to skip, such as outputs below `folder`.

    Raises
    ------
    OSError
        `folder` can't be listed. A folder below it that can't becomes a failed entry.
    """
    listing = _Listing(os.fspath(folder))
    if leave_out is not None and os.path.isdir(leave_out):
        listing.seen.add(_identity(os.stat(leave_out)))
    with os.scandir(listing.root) as found:
        items = list(found)
    listing.walk(items)
    listing.entries.sort(key=lambda entry: os.fsencode(entry.path))
    return listing.entries


class _Listing:
    """The folders seen and the inputs found so far."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.seen = {_identity(os.stat(root))}
        self.entries: list[Entry] = []

    def walk(self, items: Iterable[os.DirEntry[str]]) -> None:
        """Take the items of the root, and everything below them.

        Folders wait in a stack: a recursion would end at some depth, and file systems allow
        thousands of folders within each other. Links to folders are followed after all real
        folders, smallest first.
        """
        folders: list[str] = []
        links: list[tuple[bytes, str]] = []
        start = ""
        while True:
            below = []
            for item in sorted(items, key=lambda item: os.fsencode(item.name)):
                path = f"{start}/{item.name}" if start else item.name
                if item.is_dir(follow_symlinks=False):
                    below.append(path)
                elif item.is_symlink() and _leads_to_folder(item):
                    heapq.heappush(links, (os.fsencode(path), path))
                else:
                    self.entries.append(_entry(item, path))
            folders += reversed(below)
            if folders:
                start = folders.pop()
            elif links:
                start = heapq.heappop(links)[1]
            else:
                return
            items = self._items(start)

    def _items(self, path: str) -> list[os.DirEntry[str]]:
        """Return what is in a folder below the root, unless it was seen before."""
        whole = os.path.join(self.root, path)
        try:
            identity = _identity(os.stat(whole))
            if identity in self.seen:
                return []
            self.seen.add(identity)
            with os.scandir(whole) as found:
                return list(found)
        except OSError as error:
            reason = f"folder can't be listed: {error.strerror or error}"
            self.entries.append(Entry(path, "failed", reason))
            return []


def _leads_to_folder(link: os.DirEntry[str]) -> bool:
    try:
        return link.is_dir()
    except OSError:  # a chain of links that ends in itself: treat it as a file
        return False


def _entry(item: os.DirEntry[str], path: str) -> Entry:
    suffix = os.path.splitext(item.name)[1].lower()
    if suffix not in IMAGE_SUFFIXES:
        reason = f"{suffix} is no image's suffix" if suffix else "a name without a suffix"
        return Entry(path, "skipped", reason)
    try:
        mode = item.stat().st_mode
    except OSError:
        return Entry(path)  # a dangling link: reading it gives the reason
    if not stat.S_ISREG(mode):
        return Entry(path, "skipped", "not a regular file")
    return Entry(path)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
