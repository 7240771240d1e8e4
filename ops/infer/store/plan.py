"""The plan: which images form which batch, fixed before anything runs.

The last bits of a network's output depend on what else is in the batch. So batches are cut from the
sorted list of inputs and written down; workers, failures and resumption don't change them.
"""

import hashlib
import json
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .durable import atomic_file

VERSION = 2
# Counts the changes of models in a folder with annotated images. Those show all models, so they are
# drawn anew after each change: with another count, no batch of an earlier plan is the same.
_DRAWING = "drawing"
# The module in visops.infer.models.postprocess.Raw.__call__; names of modules are lower case.
_OWN_MODULE = re.compile(r"\bvisops(?:\.[a-z_]\w*)+\.(?=\w)")


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
    suffix : str
        Ends the name of its part; not empty once models were added or removed.
    kept : tuple of Kept
        Parts of earlier runs, with other models, that hold outputs for these inputs.
    """

    number: int
    entries: tuple[Entry, ...]
    digest: str = ""
    suffix: str = ""
    kept: "tuple[Kept, ...]" = ()

    @property
    def part(self) -> str:
        """Path of the file of its records, relative to the outputs."""
        return f"parts/part-{self.number:08d}{self.suffix}.jsonl"


@dataclass(frozen=True, slots=True)
class Kept:
    """A part of an earlier run, and the models whose outputs can be taken from it.

    Attributes
    ----------
    path, sha256 : str
    models : tuple of str
    """

    path: str
    sha256: str
    models: tuple[str, ...]


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
    earlier : list of dict
        The options before models were added or removed, the latest ones last.
    """

    options: dict[str, Any]
    batches: list[PlannedBatch] = field(default_factory=list)
    images: str = ""
    earlier: list[dict[str, Any]] = field(default_factory=list)

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
        self.batches += self._digested(cut_batches(new, batch_size, len(self.batches)))
        return len(new)

    def digests(self, options: Mapping[str, Any]) -> Iterator[str]:
        """Yield the digest of each batch as it is, or was, with these options."""
        return _digests(self.images, options, self.batches)

    def _digested(self, batches: Sequence[PlannedBatch]) -> list[PlannedBatch]:
        digests = _digests(self.images, self.options, batches)
        return [
            replace(batch, digest=digest, suffix=f"-{digest}" if self.earlier else "")
            for batch, digest in zip(batches, digests, strict=True)
        ]

    def with_models(self, options: dict[str, Any], later: Mapping[str, Any]) -> "Plan | None":
        """Return the plan for other models on the same images; None if more would change.

        At least one model stays, and those that stay are the same.

        Parameters
        ----------
        options : dict
            The options with the new models.
        later : dict
            As in :meth:`check`.
        """
        before, now = self.options.get("models", {}), options.get("models", {})
        common = before.keys() & now.keys()
        others = {"models": {name: now[name] for name in common}}
        same = {**self.options, "models": {name: before[name] for name in common}}
        if (
            not common
            or before.keys() == now.keys()
            or _differing(same, {**options, **others}, later)
        ):
            return None
        known = [self.options, *self.earlier]
        again = next((old for old in known if not _differing(old, options, later)), options)
        if options.get("annotate") is not None:
            again = {**options, _DRAWING: self.options.get(_DRAWING, 0) + 1}
        earlier = [old for old in (*self.earlier, self.options) if old is not again]
        plan = Plan(again, images=self.images, earlier=earlier)
        plan.batches = plan._digested(self.batches)
        return plan

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

    def check(
        self, options: Mapping[str, Any], path: str, later: Mapping[str, Any] | None = None
    ) -> None:
        """Refuse to resume with options that would change results.

        Parameters
        ----------
        options : dict
        path : str
            The folder of outputs, for the error.
        later : dict, optional
            Options that a plan made before them lacks, with the values they had then.

        Raises
        ------
        ValueError
            Names the first option that differs, and both values.
        """
        if name := _differing(self.options, options, later or {}):
            known = {**(later or {}), **self.options}
            before, now = _difference(settled(known.get(name)), settled(options.get(name)))
            raise ValueError(
                f"visops.infer: {name} is {now}, but the outputs in {path} were begun with "
                f"{before}; resume with that, or choose another folder"
            )

    def save(self, path: str) -> None:
        """Write the plan: one line of options, then one line per batch."""
        with atomic_file(path) as file:
            head = {"visops_plan": VERSION, "images": self.images, "options": self.options}
            if self.earlier:
                head["earlier"] = self.earlier
            file.write(json.dumps(head, sort_keys=True).encode() + b"\n")
            for batch in self.batches:
                inputs = [_packed(entry) for entry in batch.entries]
                line = {"batch": batch.number, "digest": batch.digest, "inputs": inputs}
                file.write(json.dumps(line, sort_keys=True).encode() + b"\n")

    @classmethod
    def load(cls, path: str) -> "Plan | None":
        """Read a plan; return None if there is none yet."""
        try:
            with open(path, "rb") as file:
                lines = [json.loads(line) for line in file]
            if lines[0]["visops_plan"] != VERSION:
                raise ValueError(f"is of version {lines[0]['visops_plan']}, not {VERSION}")
            head = lines[0]
            plan = cls(head["options"], [], head["images"], head.get("earlier", []))
            for line in lines[1:]:
                digest = line["digest"]
                suffix = f"-{digest}" if plan.earlier else ""
                inputs = tuple(map(_unpacked, line["inputs"]))
                plan.batches.append(PlannedBatch(line["batch"], inputs, digest, suffix))
            return plan
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


def _digests(
    images: str, options: Mapping[str, Any], batches: Iterable[PlannedBatch]
) -> Iterator[str]:
    head = hashlib.sha256(json.dumps([images, options], sort_keys=True).encode())
    for batch in batches:
        digest = head.copy()
        digest.update(json.dumps([_packed(entry) for entry in batch.entries]).encode())
        yield digest.hexdigest()[:16]


def _differing(
    before: Mapping[str, Any], now: Mapping[str, Any], later: Mapping[str, Any]
) -> str | None:
    """Return the first option that differs."""
    known = {**later, **before}
    names = sorted({*known, *now} - {_DRAWING})
    return next((n for n in names if settled(known.get(n)) != settled(now.get(n))), None)


def settled(value: Any) -> Any:
    """Return a value with names of our own classes and functions without their modules.

    Plans name post-processing by its Python name, and modules may move between versions.
    """
    if isinstance(value, dict):
        return {key: settled(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(settled, value))
    return _OWN_MODULE.sub("visops.", value) if isinstance(value, str) else value


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
