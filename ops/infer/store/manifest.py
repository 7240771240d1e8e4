"""The manifest: a line for every batch whose outputs are safe; lines are appended, never changed.

Why JSON lines and not SQLite: every writer has its own file, so processes need no lock between
them; appending and syncing a line works on network file systems, where the shared memory of
SQLite's write-ahead log does not; any tool can read it. The weak point is a line torn by a crash:
the reader ignores it and the next writer cuts it off.
"""

import glob
import hashlib
import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .durable import LockedFile, atomic_file, named, naming, sync_folder
from .plan import Kept, Plan, PlannedBatch, settled
from .records import Schema, write_parquet, write_part


@dataclass(frozen=True, slots=True)
class Commit:
    """One line: a batch that is done, the file of its records, and their number by status.

    `plan` is the digest of the batch in its plan; "" matches any plan.
    """

    batch: int
    part: str
    size: int
    sha256: str
    ok: int
    failed: int
    skipped: int
    plan: str = ""


class Manifest:
    """The only writer of a manifest file.

    Opening it takes a lock that ends with the process, cuts off a torn last line, and makes the
    file's name durable.

    Raises
    ------
    RuntimeError
        Another process is writing this file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = LockedFile(path)
        try:
            try:
                self._file.lock()
            except BlockingIOError:
                raise RuntimeError(
                    f"visops.infer: another process is writing {path}; "
                    "wait for it to end, or choose another folder"
                ) from None
            with open(path, "rb") as file:
                whole = file.read()
            self._file.truncate(whole.rfind(b"\n") + 1)
            sync_folder(os.path.dirname(path))
        except BaseException:
            self._file.close()
            raise

    def append(self, commit: Commit) -> None:
        """Append a line, and wait until it is on the disk."""
        line = json.dumps(asdict(commit), sort_keys=True).encode() + b"\n"
        try:
            self._file.append(line)
        except OSError as error:
            raise named(error, self.path) from error

    def close(self) -> None:
        """Close the file and release the lock."""
        self._file.close()

    def __enter__(self) -> "Manifest":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read_manifest(path: str) -> dict[int, Commit]:
    """Read the complete lines of one manifest, by batch; the last line of a batch counts."""
    return {commit.batch: commit for commit in _lines(path)}


def _lines(path: str) -> Iterator[Commit]:
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return
    for number, line in enumerate(lines[:-1], 1):  # what follows the last newline is torn
        try:
            commit = Commit(**json.loads(line))
        except (TypeError, ValueError) as error:
            raise ValueError(f"visops.infer: {path}, line {number} is damaged: {error}") from error
        yield commit


def committed_batches(out: str, plan: Plan) -> dict[int, Commit]:
    """Return the plan's batches that any manifest lists as done and whose parts exist.

    Lines of another plan don't count. If a batch was done twice, for example because its part was
    lost, the line that matches the existing part counts.
    """
    digests = {batch.number: batch.digest for batch in plan.batches}
    commits: dict[int, Commit] = {}
    for commit in (commit for path in manifest_paths(out) for commit in _lines(path)):
        if commit.plan not in ("", digests.get(commit.batch)) or not _is_there(out, commit):
            continue
        before = commits.get(commit.batch)
        if before is None or (before.sha256 != commit.sha256 and _holds(out, commit)):
            commits[commit.batch] = commit
    return commits


def commits_by_digest(out: str) -> dict[tuple[int, str], Commit]:
    """Return all lines whose parts exist, of any plan, by batch and digest."""
    lines = (commit for path in manifest_paths(out) for commit in _lines(path))
    return {(line.batch, line.plan): line for line in lines if _is_there(out, line)}


def _is_there(out: str, commit: Commit) -> bool:
    try:
        return os.path.getsize(os.path.join(out, commit.part)) == commit.size
    except OSError:
        return False


def _holds(out: str, commit: Commit) -> bool:
    with open(os.path.join(out, commit.part), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == commit.sha256


def manifest_paths(out: str) -> list[str]:
    """Return all manifests in a folder of outputs: manifest.jsonl and those of ranks."""
    return sorted(glob.glob(os.path.join(glob.escape(out), "manifest*.jsonl")))


# Merges all parts into one file, in the order of the plan, and counts how inputs ended.

QUARANTINE = "quarantine.jsonl"
FORMATS = ("jsonl", "parquet")


@dataclass
class Counts:
    """How inputs ended."""

    listed: int = 0
    ok: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def missing(self) -> int:
        """Inputs without a record."""
        return self.listed - self.ok - self.failed - self.skipped


def require_formats(out: str, format: str) -> None:
    """Check that the formats of a merge can be written, before there is anything to merge.

    Raises
    ------
    ModuleNotFoundError
        Names the missing module and what needs it.
    """
    if "parquet" in _formats(out, format) and importlib.util.find_spec("pyarrow") is None:
        wanted = "format is" if format == "parquet" else f"{out} has results in the format"
        raise ModuleNotFoundError(
            f"visops.infer: {wanted} 'parquet', which needs pyarrow; pip install pyarrow",
            name="pyarrow",
        )


def _formats(out: str, format: str) -> list[str]:
    """Return the requested format, then existing other ones, which would become outdated."""
    others = (other for other in FORMATS if other != format)
    return [format, *(o for o in others if os.path.exists(os.path.join(out, f"results.{o}")))]


def merge_parts(out: str, plan: Plan, commits: Mapping[int, Commit], format: str) -> Counts:
    """Write the results of a finished plan, and quarantine.jsonl, from its parts.

    Raises
    ------
    RuntimeError
        A part is damaged, or does not hold exactly the inputs of its batch.
    ModuleNotFoundError
        The package that writes the format is not installed.
    """
    require_formats(out, format)
    # Ranks that end at the same time merge one after the other.
    with closing(LockedFile(os.path.join(out, "plan.jsonl"))) as file:
        file.lock(wait=True)
        counts, *_ = [_merge(out, plan, commits, each) for each in _formats(out, format)]
    return counts


def _merge(out: str, plan: Plan, commits: Mapping[int, Commit], format: str) -> Counts:
    counts = Counts(listed=plan.inputs)
    schema = Schema() if format == "parquet" else None
    results = os.path.join(out, f"results.{format}")
    quarantine = os.path.join(out, QUARANTINE)
    with atomic_file(quarantine) as failures, atomic_file(results) as file:
        for data in _parts(out, plan, commits):
            for record in _records_of(data):
                status = record["status"]
                setattr(counts, status, getattr(counts, status) + 1)
                if status == "failed":
                    line = {"image": record["image"], "reason": record["reason"]}
                    with naming(quarantine):
                        failures.write(json.dumps(line, sort_keys=True).encode() + b"\n")
                if schema is not None:
                    schema.add(record)
            if schema is None:
                with naming(results):
                    file.write(data)
        if schema is not None:
            with naming(results):
                write_parquet(file, map(_records_of, _parts(out, plan, commits)), schema)
    return counts


def _parts(out: str, plan: Plan, commits: Mapping[int, Commit]) -> Iterator[bytes]:
    """Read and check each part."""
    for batch in plan.batches:
        commit = commits[batch.number]
        with open(os.path.join(out, commit.part), "rb") as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != commit.sha256:
            raise RuntimeError(
                f"visops.infer: {commit.part} has changed since it was written (its SHA-256 "
                "differs); remove it, and run again"
            )
        if [record["image"] for record in _records_of(data)] != [e.path for e in batch.entries]:
            raise RuntimeError(
                f"visops.infer: {commit.part} does not hold the inputs of batch {batch.number}"
            )
        yield data


def _records_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


# Outputs of earlier runs, with other models over the same batches.
#
# Adding or removing a model changes the digests of all batches, so that earlier lines in the
# manifest no longer count. But their parts stay, and hold the outputs of the models that stay.


@dataclass
class KeptOutputs:
    """What earlier parts say about the inputs of a batch.

    Attributes
    ----------
    outputs : dict
        By model, then by the input's index in the batch.
    failures : dict
        The reasons why inputs failed, unless a model was the reason.
    """

    outputs: dict[str, dict[int, Any]] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)


def find_kept(out: str, plan: Plan) -> list[PlannedBatch]:
    """Return the plan's batches with the parts of earlier runs that hold outputs for them."""
    found = commits_by_digest(out)
    wanted = plan.options["models"]
    kept: list[list[Kept]] = [[] for _ in plan.batches]
    for options in reversed(plan.earlier):
        same = tuple(
            name
            for name, one in options["models"].items()
            if name in wanted and settled(wanted[name]) == settled(one)
        )
        for batch, digest, parts in zip(plan.batches, plan.digests(options), kept, strict=True):
            commit = found.get((batch.number, digest))
            if same and commit is not None:
                parts.append(Kept(os.path.join(out, commit.part), commit.sha256, same))
    return [replace(b, kept=tuple(k)) for b, k in zip(plan.batches, kept, strict=True)]


def kept_outputs(batch: PlannedBatch) -> KeptOutputs:
    """Read what earlier parts hold for a batch; parts that are gone or damaged hold nothing."""
    found = KeptOutputs()
    for kept in batch.kept:
        try:
            with open(kept.path, "rb") as file:
                data = file.read()
        except OSError:
            continue
        if hashlib.sha256(data).hexdigest() != kept.sha256:
            continue
        for index, record in enumerate(map(json.loads, data.splitlines())):
            if record["status"] == "ok":
                for name in kept.models:
                    rows = found.outputs.setdefault(name, {})
                    rows.setdefault(index, record["outputs"][name])
            elif not record["reason"].startswith("model "):
                found.failures.setdefault(index, record["reason"])
    return found


def carry_over(out: str, plan: Plan, manifest: str) -> None:
    """Commit the batches for which earlier parts hold everything: models were only removed."""
    models = plan.options["models"]
    with Manifest(os.path.join(out, manifest)) as lines:
        for batch in plan.pending(committed_batches(out, plan)):
            records = _records(batch, models)
            if records is not None:
                lines.append(write_part(out, batch, records))


def _records(batch: PlannedBatch, models: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return a batch's records, or None if something must be computed."""
    if not batch.kept:
        return None
    found = kept_outputs(batch)
    records: list[dict[str, Any]] = []
    for index, entry in enumerate(batch.entries):
        record: dict[str, Any] = {"image": entry.path}
        if entry.status is not None:
            record |= {"status": entry.status, "reason": entry.reason}
        elif index in found.failures:
            record |= {"status": "failed", "reason": found.failures[index]}
        else:
            rows = {name: found.outputs.get(name, {}) for name in models}
            if not all(index in row for row in rows.values()):
                return None
            record |= {"status": "ok", "outputs": {name: rows[name][index] for name in rows}}
        records.append(record)
    return records
