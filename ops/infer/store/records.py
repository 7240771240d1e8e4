"""Records: one per input, the same bytes for the same results."""

import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..batch import Batch
from .durable import write_atomically
from .manifest import Commit
from .plan import PlannedBatch


def batch_records(batch: Batch) -> list[dict[str, Any]]:
    """Return a batch's records, in the order of the plan."""
    row = {frame.index: i for i, frame in enumerate(batch.frames)}
    records: list[dict[str, Any]] = []
    for index, entry in enumerate(batch.plan.entries):
        record: dict[str, Any] = {"image": entry.path}
        if entry.status is not None:
            record |= {"status": entry.status, "reason": entry.reason}
        elif index in batch.failures:
            record |= {"status": "failed", "reason": batch.failures[index]}
        else:
            outputs = {
                name: _plain_result(name, found[row[index]])
                for name, found in batch.results.items()
            }
            record |= {"status": "ok", "outputs": outputs}
        records.append(record)
    return records


def write_part(out: str, batch: PlannedBatch, records: Iterable[dict[str, Any]]) -> Commit:
    """Write a batch's records; return the line that may now go into the manifest."""
    kept = list(records)
    data = b"".join(map(json_line, kept))
    write_atomically(os.path.join(out, batch.part), data)
    counts = Counter(record["status"] for record in kept)
    return Commit(
        batch.number,
        batch.part,
        len(data),
        hashlib.sha256(data).hexdigest(),
        counts["ok"],
        counts["failed"],
        counts["skipped"],
        batch.digest,
    )


def json_line(record: dict[str, Any]) -> bytes:
    """Return a record as a JSON line: keys sorted, undecodable bytes of names escaped."""
    text = json.dumps(record, sort_keys=True, allow_nan=False, separators=(",", ":"))
    return text.encode() + b"\n"


def _plain_result(model: str, result: Any) -> Any:
    try:
        return plain(result)
    except TypeError as error:
        raise TypeError(f"visops.infer: postprocess of model {model}: {error}") from error


def plain(value: Any) -> Any:
    """Return a value that JSON can hold, with floats in the shortest digits of their precision.

    NaN and infinities, which JSON lacks, become null.

    Raises
    ------
    TypeError
        It contains a value of another type.
    """
    if value is None or isinstance(value, (int, str)):  # first, because masks are long lists
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain_array(np.asarray(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    raise TypeError(
        f"a {type(value).__name__} can't be in a record, which holds numbers, strings, NumPy "
        "arrays, and lists and dicts of them"
    )


def _plain_array(array: np.ndarray) -> Any:
    if array.dtype.kind != "f":
        return array.tolist() if array.dtype.kind in "biuU" else plain(array.tolist())
    if array.dtype.itemsize < 8:
        # The digits that float32 needs; tolist() would give all the digits of a double.
        array = array.astype("U").astype(np.float64)
    if np.isfinite(array).all():
        return array.tolist()
    values: np.ndarray = array.astype(object)
    values[~np.isfinite(array)] = None
    return values.tolist()
