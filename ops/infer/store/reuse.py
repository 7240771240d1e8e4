"""Outputs of earlier runs, with other models over the same batches.

Adding or removing a model changes the digests of all batches, so that earlier lines in the manifest
no longer count. But their parts stay, and hold the outputs of the models that stay.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .manifest import Manifest, commits_by_digest, committed_batches
from .plan import Kept, Plan, PlannedBatch, settled
from .records import write_part


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
