"""Calls every operator and public function; the arguments name modules that none may import.

Prints a line for each function that does, in a process that must be fresh. What functions are
called with is in a file, which another process has drawn.
"""

import importlib.abc
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import visops
from fuzz.calls import Target, all_targets, valid_arguments
from fuzz.draws import Draw
from torch import Tensor
from torch.utils import _pytree as pytree

PACKAGE = str(Path(visops.__file__).parent)
TRIES = 12  # draws of arguments for each function; some have bad values or rare options
MOST = (
    30_000  # elements of a call's tensors: what is imported doesn't depend on them, the time does
)


class Forbid(importlib.abc.MetaPathFinder):
    """Refuses to import some modules."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def find_spec(self, name: str, *_: Any) -> None:
        if name in self.names:
            raise ImportError("forbidden", name=name)


def calls(drawn: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield arguments: drawn ones, then with gradients wanted.

    On meta tensors torch's own functions import its compiler, so there are none.
    """

    def leaf(value: Any) -> Any:
        floats = isinstance(value, Tensor) and value.is_floating_point()
        return value.detach().requires_grad_() if floats else value

    for arguments in drawn:
        for change in (lambda value: value, leaf):
            yield pytree.tree_map(change, arguments)


def call(target: Target, arguments: dict[str, Any]) -> None:
    """Call, and differentiate the results."""
    results = pytree.tree_leaves(target.function(**arguments))
    floats = [r for r in results if isinstance(r, Tensor) and r.requires_grad and not r.is_meta]
    leaves = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Tensor)]
    leaves = [leaf for leaf in leaves if leaf.requires_grad]
    if floats:
        sums = [result.sum() for result in floats]
        torch.autograd.grad(sums, leaves, allow_unused=True)


def blame(error: ImportError) -> str:
    """Return the line of the package that led to an import."""
    frames = traceback.extract_tb(error.__traceback__)
    position = [frame for frame in frames if frame.filename.startswith(PACKAGE)][-1]
    return f"{Path(position.filename).name}:{position.lineno}"


def draw(file: str) -> None:
    """Write arguments for each function."""
    drawn: dict[str, list[dict[str, Any]]] = {}
    for target in all_targets():
        draws = (valid_arguments(Draw(f"{target.name}/{i}"), target) for i in range(TRIES))
        drawn[target.name] = [
            # torch can't write these.
            {n: v for n, v in arguments.items() if not isinstance(v, torch.memory_format)}
            for arguments in draws
            if sum(v.numel() for v in pytree.tree_leaves(arguments) if isinstance(v, Tensor))
            <= MOST
        ]
    torch.save(drawn, file)


def main(file: str, *names: str) -> None:
    if imported := {*names} & set(sys.modules):
        raise SystemExit(f"imported before any call: {imported}")
    drawn = torch.load(file, weights_only=False)
    sys.meta_path.insert(0, Forbid(names))
    for target in all_targets():
        for arguments in calls(drawn[target.name]):
            try:
                call(target, arguments)
            except ImportError as error:
                if "forbidden" in str(error):
                    print(f"{target.name} imports {error.name} at {blame(error)}")
                    break
            except Exception:
                pass
