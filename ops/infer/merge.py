"""All parts as one file, in the order of the plan, and the count of what became of every input."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from .durable import atomic_file
from .manifest import Commit
from .plan import Plan

__all__ = ["Counts", "merge_parts"]


@dataclass
class Counts:
    """How inputs ended."""

    listed: int = 0
    ok: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def missing(self) -> int:
        """Inputs that ended in no way: 0 unless something is wrong."""
        return self.listed - self.ok - self.failed - self.skipped


def merge_parts(out: str, plan: Plan, commits: Mapping[int, Commit]) -> Counts:
    """Write results.jsonl and quarantine.jsonl from the parts of a finished plan.

    Raises
    ------
    RuntimeError
        A part is damaged, or doesn't hold just the inputs of its batch.
    """
    counts = Counts(listed=sum(1 for _ in plan.entries))
    quarantine = os.path.join(out, "quarantine.jsonl")
    with (
        atomic_file(os.path.join(out, "results.jsonl")) as results,
        atomic_file(quarantine) as failures,
    ):
        for batch in plan.batches:
            commit = commits[batch.number]
            data = _part(out, commit)
            results.write(data)
            records = [json.loads(line) for line in data.splitlines()]
            if [record["image"] for record in records] != [e.path for e in batch.entries]:
                raise RuntimeError(
                    f"visops.infer: {commit.part} doesn't hold the inputs of batch {batch.number}"
                )
            for record in records:
                status = record["status"]
                setattr(counts, status, getattr(counts, status) + 1)
                if status == "failed":
                    line = {"image": record["image"], "reason": record["reason"]}
                    failures.write(json.dumps(line, sort_keys=True).encode() + b"\n")
    return counts


def _part(out: str, commit: Commit) -> bytes:
    with open(os.path.join(out, commit.part), "rb") as file:
        data = file.read()
    if hashlib.sha256(data).hexdigest() != commit.sha256:
        raise RuntimeError(
            f"visops.infer: {commit.part} is not what was written (its SHA-256 differs); "
            "remove it, and run again"
        )
    return data
