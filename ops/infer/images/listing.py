"""The inputs: every file below a folder, in an order that depends only on names."""

from __future__ import annotations

import heapq
import os
import stat

from ..store.plan import Entry

__all__ = ["IMAGE_SUFFIXES", "list_images"]

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
    root = os.fspath(folder)
    seen = {_identity(os.stat(root))}
    if leave_out is not None and os.path.isdir(leave_out):
        seen.add(_identity(os.stat(leave_out)))
    entries: list[Entry] = []
    links: list[tuple[bytes, str]] = []  # to folders: walked after all real folders, smallest first
    _walk(root, "", entries, links, seen)
    while links:
        _, path = heapq.heappop(links)
        _enter(root, path, entries, links, seen)
    entries.sort(key=lambda entry: os.fsencode(entry.path))
    return entries


def _walk(
    root: str,
    start: str,
    entries: list[Entry],
    links: list[tuple[bytes, str]],
    seen: set[tuple[int, int]],
) -> None:
    """List one folder and the real folders below it; leave links to folders for later."""
    with os.scandir(os.path.join(root, start)) as found:
        items = sorted(found, key=lambda item: os.fsencode(item.name))
    for item in items:
        path = f"{start}/{item.name}" if start else item.name
        if item.is_dir(follow_symlinks=False):
            _enter(root, path, entries, links, seen)
        elif item.is_symlink() and _leads_to_folder(item):
            heapq.heappush(links, (os.fsencode(path), path))
        else:
            entries.append(_entry(item, path))


def _enter(
    root: str,
    path: str,
    entries: list[Entry],
    links: list[tuple[bytes, str]],
    seen: set[tuple[int, int]],
) -> None:
    try:
        identity = _identity(os.stat(os.path.join(root, path)))
        if identity in seen:
            return
        seen.add(identity)
        _walk(root, path, entries, links, seen)
    except OSError as error:
        reason = f"folder can't be listed: {error.strerror or error}"
        entries.append(Entry(path, "failed", reason))


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
