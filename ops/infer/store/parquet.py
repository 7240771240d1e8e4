"""Records as Parquet, one row group per part."""

import json
import os
from collections.abc import Iterable
from typing import Any


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
