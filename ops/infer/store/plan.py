"""The plan: which images form which batch, fixed before anything runs.

The last bits of a network's output depend on what else is in the batch. So batches are cut from the
sorted list of inputs and written down; workers, failures and resumption don't change them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .durable import atomic_file

__all__ = ["Entry", "Plan", "PlannedBatch", "cut_batches"]

VERSION = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """One input.

    Attributes
    ----------
    path : str
        Relative to the folder of images, with ``/`` between parts. Bytes outside the file system's
        encoding are lone surrogates; ``os.fsencode`` restores them.
    status : str or None
        None for a file to read as an image; otherwise its final status, "skipped" or "failed".
    reason : str or None
        Why it was skipped or failed.
    """

    path: str
    status: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """Inputs processed together: at most `batch_size` images, with skipped inputs among them.

    Attributes
    ----------
    number : int
    entries : tuple of Entry
    digest : str
        Digest of these inputs and the plan's options: a commit counts for this batch only.
    """

    number: int
    entries: tuple[Entry, ...]
    digest: str = ""


def cut_batches(entries: Iterable[Entry], batch_size: int, first: int = 0) -> list[PlannedBatch]:
    """Cut a list of inputs into batches of consecutive images.

    Inputs that are not images ride along without counting.
    """
    batches: list[PlannedBatch] = []
    taken: list[Entry] = []
    images = 0
    for entry in entries:
        if entry.status is None and images == batch_size:
            batches.append(PlannedBatch(first + len(batches), tuple(taken)))
            taken, images = [], 0
        taken.append(entry)
        images += entry.status is None
    if taken:
        batches.append(PlannedBatch(first + len(batches), tuple(taken)))
    return batches


@dataclass
class Plan:
    """All batches of a folder of outputs, and the options that results depend on.

    Attributes
    ----------
    options : dict
    batches : list of PlannedBatch
    images : str
        The real path of the folder of images; "" if unknown.
    """

    options: dict[str, Any]
    batches: list[PlannedBatch] = field(default_factory=list)
    images: str = ""

    @property
    def entries(self) -> Iterable[Entry]:
        """All inputs, in the order of the results."""
        return (entry for batch in self.batches for entry in batch.entries)

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return sum(len(batch.entries) for batch in self.batches)

    def extend(self, entries: Iterable[Entry], batch_size: int) -> int:
        """Plan new inputs as additional batches; return how many there are."""
        known = {entry.path for entry in self.entries}
        new = [entry for entry in entries if entry.path not in known]
        head = hashlib.sha256(json.dumps([self.images, self.options], sort_keys=True).encode())
        for batch in cut_batches(new, batch_size, len(self.batches)):
            digest = head.copy()
            digest.update(json.dumps([_packed(entry) for entry in batch.entries]).encode())
            self.batches.append(replace(batch, digest=digest.hexdigest()[:16]))
        return len(new)

    def check_images(self, images: str, path: str) -> None:
        """Refuse another folder of images: the same names would mean different images.

        Raises
        ------
        ValueError
            Names both folders.
        """
        if self.images in ("", images) or _is_same(self.images, images):
            return
        raise ValueError(
            f"visops.infer: images is {images}, but the outputs in {path} were begun with "
            f"{self.images}; resume with that, or choose another folder for the outputs; if the "
            "images have moved, link to them from the old path"
        )

    def pending(self, done: Container[int]) -> list[PlannedBatch]:
        """Return the batches that are not in `done`."""
        return [batch for batch in self.batches if batch.number not in done]

    def check(self, options: Mapping[str, Any], path: str) -> None:
        """Refuse to resume with options that would change results.

        Raises
        ------
        ValueError
            Names the first option that differs, and both values.
        """
        for name in sorted({*self.options, *options}):
            before, now = self.options.get(name), options.get(name)
            if before != now:
                before, now = _difference(before, now)
                raise ValueError(
                    f"visops.infer: {name} is {now}, but the outputs in {path} were begun with "
                    f"{before}; resume with that, or choose another folder"
                )

    def save(self, path: str) -> None:
        """Write the plan: one line of options, then one line per batch."""
        with atomic_file(path) as file:
            head = {"visops_plan": VERSION, "images": self.images, "options": self.options}
            file.write(json.dumps(head, sort_keys=True).encode() + b"\n")
            for batch in self.batches:
                inputs = [_packed(entry) for entry in batch.entries]
                line = {"batch": batch.number, "digest": batch.digest, "inputs": inputs}
                file.write(json.dumps(line, sort_keys=True).encode() + b"\n")

    @classmethod
    def load(cls, path: str) -> Plan | None:
        """Read a plan; return None if there is none yet."""
        try:
            with open(path, "rb") as file:
                lines = [json.loads(line) for line in file]
            if lines[0]["visops_plan"] != VERSION:
                raise ValueError(f"is of version {lines[0]['visops_plan']}, not {VERSION}")
            batches = [
                PlannedBatch(line["batch"], tuple(map(_unpacked, line["inputs"])), line["digest"])
                for line in lines[1:]
            ]
            return cls(lines[0]["options"], batches, lines[0]["images"])
        except FileNotFoundError:
            return None
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"visops.infer: {path} is not a plan of this version: {error}"
            ) from error


def normalised(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as JSON would return them: tuples become lists, and so on."""
    plain: dict[str, Any] = json.loads(json.dumps(options, sort_keys=True))
    return plain


def _packed(entry: Entry) -> Any:
    return entry.path if entry.status is None else [entry.path, entry.status, entry.reason]


def _unpacked(packed: Any) -> Entry:
    return Entry(packed) if isinstance(packed, str) else Entry(*packed)


def _difference(before: Any, now: Any) -> tuple[Any, Any]:
    """Return where two values differ: for lists and dicts, the first item that does."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}):
            if before.get(key) != now.get(key):
                a, b = _difference(before.get(key), now.get(key))
                return f"{key}={a}", f"{key}={b}"
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return next(_difference(a, b) for a, b in zip(before, now, strict=True) if a != b)
    return before, now


def _is_same(first: str, second: str) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:  # one of them is gone
        return False
