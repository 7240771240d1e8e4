"""The inputs: every file below a folder, in an order that depends only on names; or a list."""

import csv
import glob
import heapq
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..store.plan import Entry

IMAGE_SUFFIXES = frozenset(
    (".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
)

PathLike: TypeAlias = str | os.PathLike[str]
Images: TypeAlias = "PathLike | Sequence[PathLike] | Inputs"

_LISTS = (".csv", ".txt")
_COLUMNS = ("image", "path", "file", "filename", "file_name", "image_path")


@dataclass(frozen=True)
class Inputs:
    """Where the inputs are.

    Attributes
    ----------
    root : str
        The folder that all of them lie below.
    files : tuple of str, or None
        Their paths below it, in the order in which they become batches; None for all that there is.
    """

    root: str
    files: tuple[str, ...] | None = None

    def entries(self, leave_out: PathLike) -> list[Entry]:
        """List them; `leave_out` is a folder to skip where a whole folder is listed."""
        if self.files is None:
            return list_images(self.root, leave_out=leave_out)
        return [Entry(path) for path in self.files]


def find_inputs(images: Images) -> Inputs:
    """Say what `images` means: a folder, a file, a pattern, a list in a file, or a list.

    Parameters
    ----------
    images : path, sequence of path, or Inputs
        A folder stands for every file below it. A string with ``*``, ``?`` or ``[`` is a pattern of
        :mod:`glob`, where ``**`` stands for any folders. A ``.txt`` file has a path on each line, a
        ``.csv`` file has paths in its column "image", "path", "file" or "filename", or in its first
        one; they are relative to that file's folder. Any other file is an image.

    Raises
    ------
    FileNotFoundError
        There is no such folder or file, or no file fits the pattern.
    ValueError
        A list is empty, or has a path twice.
    """
    if isinstance(images, Inputs):
        return images
    if not isinstance(images, (str, os.PathLike)):
        return _below_one_folder([os.fspath(path) for path in images], "images")
    path = os.fspath(images)
    if os.path.isdir(path):
        return Inputs(path)
    suffix = os.path.splitext(path)[1].lower()
    if os.path.isfile(path):
        if suffix not in _LISTS:
            return _below_one_folder([path], path)
        folder = os.path.dirname(path)
        return _below_one_folder([os.path.join(folder, own) for own in _read_list(path)], path)
    if glob.has_magic(path):
        found = filter(os.path.isfile, glob.iglob(path, recursive=True))
        if files := sorted(found, key=os.fsencode):
            return _below_one_folder(files, path)
        raise FileNotFoundError(f"visops.infer: images is {path}, and no file fits this pattern")
    raise FileNotFoundError(f"visops.infer: images is {path}: there is no such folder or file")


def _read_list(path: str) -> list[str]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        if path.lower().endswith(".txt"):
            return [line.strip() for line in file if line.strip()]
        rows = [row for row in csv.reader(file) if row]
    names = [name.strip().lower() for name in rows[0]] if rows else []
    column = next((names.index(name) for name in _COLUMNS if name in names), None)
    return [row[column or 0].strip() for row in rows[column is not None :]]


def _below_one_folder(paths: Sequence[str], what: str) -> Inputs:
    files = [os.path.abspath(path) for path in paths]
    if not files:
        raise ValueError(f"visops.infer: {what} is empty, must name at least one image")
    if len(set(files)) < len(files):
        twice = next(file for i, file in enumerate(files) if file in files[:i])
        raise ValueError(f"visops.infer: {what} names {twice} twice: results are by path")
    root = os.path.commonpath([os.path.dirname(file) for file in files])
    return Inputs(root, tuple(os.path.relpath(file, root).replace(os.sep, "/") for file in files))


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
