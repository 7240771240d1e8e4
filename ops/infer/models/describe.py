"""Descriptions of Python objects that are the same in every process."""

import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, MutableSet, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from torch import Tensor, nn

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_DEEPEST = 8


def describe(value: object, digest: Callable[[object], str | None], depth: int = 0) -> str:
    """Describe a value, without the addresses that `repr` shows for functions and plain objects.

    A function is described by its name and the values it closes over, an object without its own
    `repr` by its class and attributes, anything else by its `repr`. Lists, dicts and sets that are
    closed over, or are attributes, are left out: a callable may collect something in them.

    Parameters
    ----------
    value : object
    digest : callable
        Digest of a module's weights.
    depth : int
        Nesting depth of `value`, which is limited: objects may refer to each other.
    """
    if depth > _DEEPEST:
        return "..."

    def of(inner: object) -> str:
        return describe(inner, digest, depth + 1)

    def fields(named: Mapping[str, Any]) -> str:
        return ", ".join(f"{name}={of(inner)}" for name, inner in named.items())

    def state(named: Mapping[str, Any]) -> str:
        return fields({name: inner for name, inner in named.items() if not _collects(inner)})

    if isinstance(value, partial):
        given = [of(value.func), *map(of, value.args)]
        given += [f"{name}={of(inner)}" for name, inner in sorted(value.keywords.items())]
        return f"partial({', '.join(given)})"
    if isinstance(value, nn.Module):
        return f"{_name(type(value))}({digest(value)})"
    if isinstance(value, (Tensor, np.ndarray)):
        return f"{_name(type(value))}({value.tolist()}, {value.dtype})"
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return f"{type(value).__name__}({', '.join(map(of, value))})"
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}({', '.join(sorted(map(of, value)))})"
    if type(value) is dict:
        return f"dict({', '.join(f'{of(key)}: {of(inner)}' for key, inner in value.items())})"
    bound = getattr(value, "__self__", None)
    if hasattr(value, "__qualname__"):
        if bound is not None and not isinstance(bound, ModuleType):
            return f"{_name(value)} of {of(bound)}"
        cells = getattr(value, "__closure__", None) or ()
        names = getattr(getattr(value, "__code__", None), "co_freevars", ())
        closed = {name: _content(cell) for name, cell in zip(names, cells, strict=False)}
        return f"{_name(value)}({state(closed)})" if closed else _name(value)
    if is_dataclass(value):  # its repr shows sets in an order that differs between processes
        shown = [field.name for field in dataclass_fields(value) if field.repr]
        said = {name: getattr(value, name) for name in shown}
        return f"{type(value).__qualname__}({fields(said)})"
    text = repr(value)
    if type(value).__repr__ is not object.__repr__ and not _ADDRESS.search(text):
        return text
    return f"{_name(type(value))}({state(_attributes(value))})"


def _collects(value: object) -> bool:
    return isinstance(value, (MutableMapping, MutableSequence, MutableSet))


def _attributes(value: object) -> dict[str, Any]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    names = {*slots, *getattr(value, "__dict__", ())} - {"__dict__", "__weakref__"}
    return {name: getattr(value, name) for name in sorted(names) if hasattr(value, name)}


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', None)}.{value.__qualname__}"


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not yet bound
        return None


# Names of classes beside their labels.


def with_names(result: Any, classes: Sequence[str] | None) -> Any:
    """Return a result with ``names`` for its ``labels``, if these are integers.

    A label without a name, or with an empty one, gets None. A result with names of its own, or of
    another form, stays as it is.
    """
    if classes is None or not isinstance(result, Mapping) or "names" in result:
        return result
    labels = np.asarray(result.get("labels"))
    if labels.ndim != 1 or (labels.size and labels.dtype.kind not in "iu"):
        return result
    names = [_name_of(classes, label) for label in labels.tolist()]
    return {**result, "names": names}


def _name_of(classes: Sequence[str], label: int) -> str | None:
    return classes[label] or None if 0 <= label < len(classes) else None


def read_classes(path: str) -> tuple[str, ...]:
    """Read names, a line each, label 0 first; an empty line is a label without a name.

    Raises
    ------
    ValueError
        The file is empty, or not UTF-8.
    """
    with open(path, encoding="utf-8") as file:
        try:
            names = tuple(line.strip() for line in file.read().splitlines())
        except UnicodeDecodeError as error:
            raise ValueError(f"visops.infer: classes in {path} are not UTF-8: {error}") from error
    if not any(names):
        raise ValueError(f"visops.infer: there are no names of classes in {path}")
    return names
