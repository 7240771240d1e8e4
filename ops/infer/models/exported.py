"""Networks from files: torch.export's, also for one batch size, and Python files that build one."""

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map


def load_exported(path: str) -> tuple[Any, int | None, bool]:
    """Load a ``.pt2`` file.

    Returns
    -------
    module
    int or None
        Its batch size, if that is fixed.
    bool
        Whether it takes a list of images ``[3, h, w]``, one argument each in its graph.
    """
    program = torch.export.load(path)
    inputs = set(program.graph_signature.user_inputs)
    shapes = [
        getattr(node.meta.get("val"), "shape", ())
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in inputs
    ]
    network = program.module()
    if shapes and all(len(shape) == 3 for shape in shapes):
        return network, len(shapes), True
    first = shapes[0] if shapes else ()
    # A dynamic batch size is a symbol, not an int.
    return network, first[0] if first and isinstance(first[0], int) else None, False


def call_in_fixed_batches(
    call: Callable[..., Any], size: int, inputs: Tensor, as_list: bool = False
) -> Any:
    """Call a network that takes exactly `size` images on any number of them.

    The last batch is padded with copies of the last image, whose outputs are cut off. A detector
    that suppresses boxes itself returns a list with a dict for each image or, for a single image,
    such a dict: their tensors have a row for each box, not for each image.
    """
    outputs = []
    for part in inputs.split(size):
        kept = len(part)
        filled = torch.cat([part, *[part[-1:]] * (size - kept)]) if kept < size else part
        output = call(list(filled) if as_list else filled)
        found = _by_image(output, size)
        outputs.append(tree_map(partial(_first, kept), output) if found is None else found[:kept])
    if len(outputs) == 1:
        return outputs[0]
    if _is_by_image(outputs[0]):
        return [found for output in outputs for found in output]
    return tree_map(_joined, *outputs)


def _by_image(output: Any, size: int) -> list[Any] | None:
    """Return a detector's output with an item for each image; None if it has another form."""
    if isinstance(output, Mapping):
        boxes = output.get("boxes")
        return [output] if size == 1 and isinstance(boxes, Tensor) and boxes.dim() == 2 else None
    return output if _is_by_image(output) and len(output) == size else None


def _is_by_image(output: Any) -> bool:
    return (
        isinstance(output, list)
        and len(output) > 0
        and all(isinstance(found, Mapping) and "boxes" in found for found in output)
    )


def _first(count: int, value: Any) -> Any:
    return value[:count] if _has_rows(value) else value


def _joined(first: Any, *others: Any) -> Any:
    return torch.cat([first, *others]) if _has_rows(first) else first


def _has_rows(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0


# Networks from a user's own Python file: ``file.py:function``.

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
