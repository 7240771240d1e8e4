"""Merges all parts into one file, in the order of the plan, and counts how inputs ended."""

import hashlib
import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from .durable import LockedFile, atomic_file, naming
from .manifest import Commit
from .plan import Plan
from .records import Schema, write_parquet

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
            for record in _records(data):
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
                write_parquet(file, map(_records, _parts(out, plan, commits)), schema)
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
        if [record["image"] for record in _records(data)] != [e.path for e in batch.entries]:
            raise RuntimeError(
                f"visops.infer: {commit.part} does not hold the inputs of batch {batch.number}"
            )
        yield data


def _records(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]
