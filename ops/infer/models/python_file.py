"""Networks from a user's own Python file: ``file.py:function``."""

import importlib.util
import os
import re
import sys
from types import ModuleType
from typing import Any

import torch
from torch import nn

# Begins the names of these modules, which processes elsewhere can't import by name.
PREFIX = "visops_model_"

_NAME = re.compile(r"(.+\.py):([^\W\d]\w*)\Z", re.DOTALL)


def is_python(name: str) -> bool:
    """Whether a model's name has the form ``file.py:function``."""
    return _NAME.match(name) is not None


def load_python(name: str, seed: int) -> tuple[str, Any]:
    """Return the function's name, and what it returns; a module in its place is taken as it is.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        There is no such function, or the file or the function raises.
    """
    matched = _NAME.match(name)
    assert matched is not None, name
    path, function = matched.groups()
    if not os.path.isfile(path):
        raise FileNotFoundError(f"visops.infer: there is no model file {path}")
    try:
        # As for models by name: each process draws the same random weights.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            found = getattr(_module(path), function)
            torch.default_generator.manual_seed(seed)  # importing may have drawn
            if not isinstance(found, nn.Module) and callable(found):
                found = found()
    except Exception as error:  # the file may do anything
        raise ValueError(f"visops.infer: {name}: {type(error).__name__}: {error}") from error
    return function, found


def _module(path: str) -> ModuleType:
    """Import a file; the imports in it find the files beside it."""
    path = os.path.abspath(path)
    name = PREFIX + os.path.splitext(os.path.basename(path))[0]
    known = sys.modules.get(name)
    if known is not None and known.__file__ == path:
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if (folder := os.path.dirname(path)) not in sys.path:
        sys.path.append(folder)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
