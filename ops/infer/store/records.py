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


# Records as Parquet, one row group per part.


class Schema:
    """The type that fits all records, found by looking at every one of them.

    Libraries infer the type from the first records, and fail at the first image with boxes if those
    before it had none.
    """

    def __init__(self) -> None:
        self._type: Any = None

    def add(self, record: dict[str, Any]) -> None:
        """Widen the type so that it fits one more record.

        Raises
        ------
        TypeError
            No type fits: for example, one record has a list where another has a number.
        """
        self._type = _unified(self._type, _type_of(record), "record")

    def arrow(self) -> Any:
        """Return the pyarrow schema, without fields that are empty in all records."""
        import pyarrow

        struct = _arrow_type(self._type or {})
        return pyarrow.schema([] if struct is None else list(struct))


def write_parquet(file: Any, parts: Iterable[list[dict[str, Any]]], schema: Schema) -> None:
    """Write the records of all parts to an open file; see :func:`readable` for texts."""
    import pyarrow
    import pyarrow.parquet

    arrow = schema.arrow()
    with pyarrow.parquet.ParquetWriter(file, arrow, compression="zstd") as writer:
        for records in parts:
            try:
                table = pyarrow.Table.from_pylist(records, schema=arrow)
            except UnicodeEncodeError:  # rare, and checking every text is slow
                table = pyarrow.Table.from_pylist(list(map(_readable, records)), schema=arrow)
            writer.write_table(table)


def readable(text: str) -> str:
    """Return a path or text that Parquet can hold: bytes that are not UTF-8 are escaped."""
    try:
        return os.fsencode(text).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a UTF-16 pair, which no file name contains
        return text.encode("utf-8", "backslashreplace").decode()


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, dict):
        return {key: _readable(item) for key, item in value.items()}
    return list(map(_readable, value)) if isinstance(value, list) else value


def _type_of(value: Any) -> Any:
    """Return a type's name, a list with the items' type, a dict of types, or None if unknown."""
    if value is None:
        return None
    if isinstance(value, dict):
        return {key: _type_of(item) for key, item in value.items()}
    if isinstance(value, list):
        item = None
        for element in value:
            item = _unified(item, _type_of(element), "list")
            if isinstance(item, str) and isinstance(element, float):
                break  # all numbers: float is the widest type, so skip the rest
        return [item]
    return type(value).__name__


def _unified(a: Any, b: Any, where: str) -> Any:
    if a == b or b is None:
        return a
    if a is None:
        return b
    if isinstance(a, dict) and isinstance(b, dict):
        return {key: _unified(a.get(key), b.get(key), key) for key in sorted({*a, *b})}
    if isinstance(a, list) and isinstance(b, list):
        return [_unified(a[0], b[0], where)]
    if isinstance(a, str) and isinstance(b, str) and {a, b} == {"int", "float"}:
        return "float"
    raise TypeError(
        f"visops.infer: records can't be Parquet: {where} is {json.dumps(a)} in some and "
        f"{json.dumps(b)} in others; use the format jsonl"
    )


def _arrow_type(kind: Any) -> Any:
    import pyarrow

    if kind is None:
        return None
    if isinstance(kind, dict):
        fields = [(key, _arrow_type(item)) for key, item in sorted(kind.items())]
        known = [pyarrow.field(key, item) for key, item in fields if item is not None]
        return pyarrow.struct(known) if known else None
    if isinstance(kind, list):
        item = _arrow_type(kind[0])
        return None if item is None else pyarrow.list_(item)
    names = {"int": "int64", "float": "float64", "bool": "bool_", "str": "string"}
    return getattr(pyarrow, names[kind])()
