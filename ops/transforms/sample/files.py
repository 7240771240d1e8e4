"""The files that stand for images in samples, by their paths or as their content."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .encoded import BUFFERS, is_encoded

PATHS = (str, os.PathLike)
FILES = (*PATHS, *BUFFERS)


@dataclass(slots=True)
class File:
    """The file of a sample: a path, or content.

    Attributes
    ----------
    key : Any
        Its key or place in the sample; None: it is the sample.
    value : Any
        What is there.
    path : str, optional
    content : Any
        Bytes, a buffer, or a uint8 tensor or array; None: they are to be read from `path`.
    """

    key: Any
    value: Any
    path: str | None
    content: Any


def find_file(sample: Any, kinds: Mapping[str, str]) -> File | None:
    """Find the file that stands for a sample's image, or return None.

    It is the sample itself, the value under a name of images in a dict, or in a tuple or list the
    first content of a file; where there is none, the first path.
    """
    if isinstance(sample, (tuple, list)):
        path = None
        for index, value in enumerate(sample):
            if is_encoded(value) and not isinstance(value, list):
                return File(index, value, None, value)
            if path is None and isinstance(value, PATHS):
                path = index
        if path is not None:
            return File(path, sample[path], os.fspath(sample[path]), None)
        for index, value in enumerate(sample):
            if isinstance(value, Mapping):
                found = _undecoded(index, value)
                if found is not None:
                    return found
        return None
    if isinstance(sample, Mapping):
        for key, value in sample.items():
            if kinds.get(key) == "image":
                return _file(key, value)
        return _undecoded(None, sample)
    return _file(None, sample)


def _file(key: Any, value: Any) -> File | None:
    if isinstance(value, PATHS):
        return File(key, value, os.fspath(value), None)
    if isinstance(value, Mapping):
        return _undecoded(key, value)
    if is_encoded(value) and not isinstance(value, list):
        return File(key, value, None, value)
    return None


def _undecoded(key: Any, value: Mapping[Any, Any]) -> File | None:
    """Return the file of a Hugging Face image that is not decoded: its bytes and its path."""
    if value.keys() != {"bytes", "path"}:
        return None
    path, content = value["path"], value["bytes"]
    if content is None and path is None:
        return None
    return File(key, value, None if path is None else os.fspath(path), content)


def with_files_read(sample: Any, kinds: Mapping[str, str]) -> Any:
    """Return a sample, or a batch, in which files' contents are in the places of their paths."""
    if _are_paths(sample):
        return list(map(_content_of, sample))
    file = find_file(sample, kinds)
    if file is not None:
        return sample if file.content is file.value else with_content(sample, file)
    named = isinstance(sample, Mapping)
    if named or isinstance(sample, (tuple, list)):
        entries: Any = sample.items() if named else enumerate(sample)
        for key, value in entries:
            if _are_paths(value) and (not named or kinds.get(key) == "image"):
                return replaced(sample, {key: list(map(_content_of, value))})
    return sample


def _are_paths(value: Any) -> bool:
    return type(value) is list and len(value) > 0 and all(isinstance(own, PATHS) for own in value)


def _content_of(path: Any) -> bytes:
    with open(path, "rb") as opened:
        return opened.read()


def with_content(sample: Any, file: File) -> Any:
    """Return a sample with its file's content in the file's place, reading it if need be."""
    content = file.content
    if content is None:
        content = _content_of(file.path)
    return content if file.key is None else replaced(sample, {file.key: content})


def replaced(sample: Any, values: Mapping[Any, Any]) -> Any:
    """Return a dict, list or tuple with other values at some keys or places."""
    if isinstance(sample, Mapping):
        return {**sample, **values}
    listed = list(sample)
    for index, value in values.items():
        listed[index] = value
    if hasattr(sample, "_fields"):  # a namedtuple
        return type(sample)(*listed)
    return type(sample)(listed)
