"""Names of classes beside their labels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


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
    names = [_name(classes, label) for label in labels.tolist()]
    return {**result, "names": names}


def _name(classes: Sequence[str], label: int) -> str | None:
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
