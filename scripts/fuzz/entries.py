"""Valid arguments of every operator and function: those of the entries in tests/operators.

An entry draws them for sizes, options and a dtype that are chosen here. Operators that no entry is
about get what functions call them with, on the way to results and to gradients of any order.
"""

import contextlib
import functools
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from threads import torch_threads
from torch import Tensor
from torch.utils import _pytree as pytree

from .draws import DTYPES, FLOATING, Draw, odd_numbers

# A process that forks starts no threads: its children would wait for them for ever.
one_thread = functools.partial(torch_threads, 1)
with one_thread():
    from operators import CASES, case
    from operators.case import OpCase, Sizes
    from operators.drawn import DRAWN
    from operators.recorded import OperatorCalls, gradients, is_float, weights

_OPERATOR = "torch.ops.visops."
_COMPUTED = [d for d in DTYPES if d not in (torch.complex32, torch.float8_e4m3fn)]
_TRIES = 30  # sizes that do not fit together are drawn again
_REFUSED = (RuntimeError, ValueError, TypeError)


class AnyDraw(case.Draw):
    """Draws a call's sizes and options by the fuzzer's choices."""

    def __init__(self, draw: Draw, dtype: torch.dtype) -> None:
        batch = draw.choice((1, 1, 2, 3, 0))
        counts = (0, 1, 2, 5, 17, 64, 300) if batch else (0,)
        self.sizes = Sizes(
            batch=batch,
            height=_side(draw),
            width=_side(draw),
            count=draw.choice(counts),
            other=draw.between(0, 9),
            channels=draw.choice((1, 2, 3, 3, 4, 8, 17, 0)),
        )
        self.size, self.dtype, self.seed = "random", dtype, draw.between(0, 9)
        self.rng = self.fixed = np.random.default_rng(draw.between(0, 2**62))
        self.choose = lambda *options: draw.choice(options)  # type: ignore[method-assign]


def _side(draw: Draw) -> int:
    if draw.chance(0.04):
        return 0
    return int(draw.choice((1, 2, 3, 5, 8, 13, 16, 33, 64, 130, draw.between(1, 40))))


@functools.cache
def entries() -> Mapping[str, list[OpCase]]:
    """Return the entries of each function and operator that has its own."""
    found: dict[str, list[OpCase]] = {}
    for each in CASES:
        name = f"visops.{each.name.split()[0]}"
        if each.call is not None:
            is_operator = isinstance(each.call, torch._ops.OpOverloadPacket)
            name = f"{_OPERATOR}{each.call.__name__}" if is_operator else each.name
        found.setdefault(name, []).append(each)
    for name, makes in DRAWN.items():
        function = functools.reduce(getattr, name.split("."), _Root)
        found.setdefault(name, []).extend(OpCase(name, make, call=function) for make in makes)
    return found


class _Root:
    """Where dotted names begin."""

    torch = torch
    import visops


# An entry, the order of the derivative that is taken, and of which argument; None: of all.
Way = tuple[OpCase, int, str | None]


@functools.cache
def callers() -> Mapping[str, list[Way]]:
    """Return the ways to reach an operator: those with the fewest derivatives of each entry."""
    found: dict[str, list[Way]] = {}
    for entry in (entry for group in entries().values() for entry in group):
        arguments = entry.arguments()
        floats = [name for name, value in arguments.items() if is_float(value)]
        reached: set[str] = set()
        for order in range(3):
            ways = [(entry, order, name) for name in (None, *(floats if order else ()))]
            by_way = {way: {name for name, _ in _recorded(way, arguments)} for way in ways}
            for way, names in by_way.items():
                for name in names - reached:
                    found.setdefault(name, []).append(way)
            reached = reached.union(*by_way.values())
    return found


def _recorded(way: Way, arguments: Mapping[str, Any]) -> list[tuple[str, tuple[Any, ...]]]:
    """Return the operators that a call makes, with its derivatives.

    What a call raises is looked at when it is made itself. By incoming gradients, what is
    linear has a second derivative too.
    """
    entry, order, wanted = way

    def leaf(value: Any) -> Any:
        return value.detach().requires_grad_() if is_float(value) else value

    given = {
        name: pytree.tree_map(leaf, value) if wanted in (None, name) else value
        for name, value in arguments.items()
    }
    leaves = [v for v in pytree.tree_leaves(given) if isinstance(v, Tensor) and v.requires_grad]
    seeded = torch.random.fork_rng(devices=[])  # what draws points, draws the same ones again
    with seeded, contextlib.suppress(Exception), OperatorCalls() as seen:
        torch.manual_seed(0)
        # What is written to has no gradient.
        written = isinstance(arguments.get("out"), Tensor)
        results = entry.results(arguments if written else given)
        results = [r for r in results if r.requires_grad]
        incoming = [leaf(weights(result)) for result in results]
        if order and results:
            first = torch.autograd.grad(
                results, leaves, incoming, create_graph=order > 1, allow_unused=True
            )
            again = [g for g in first if g is not None and g.requires_grad]
            gradients(again, [*leaves, *incoming])
    return [(func._schema.name.split("::")[1], args) for func, args in seen.calls]


def valid_arguments(draw: Draw, name: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that should fit together; some numbers among them are unusual."""
    if not defaults:
        return {}
    with torch.device("cpu"):
        for _ in range(_TRIES):
            found = _drawn(draw, name, list(defaults))
            if found is not None:
                break
        else:
            raise AssertionError(f"no entry of tests/operators calls {name}")
    share = 1.0 if name.startswith(_OPERATOR) else 0.3  # of the defaults that are given
    arguments = {
        argument: found.get(argument, default)
        for argument, default in defaults.items()
        if argument in found or (default is not inspect.Parameter.empty and draw.chance(share))
    }
    if "index" in arguments:
        return arguments  # of the forward with these numbers: with others it has no meaning
    if draw.chance(0.1):
        dtype = draw.choice(_COMPUTED)
        arguments = pytree.tree_map(lambda v: v.to(dtype) if is_float(v) else v, arguments)
    floating = [n for n, v in arguments.items() if is_float(v) and v.numel() and n != "out"]
    floating = [n for n in floating if arguments[n].dtype in FLOATING]
    if floating and draw.chance(0.3):
        argument = draw.choice(floating)
        arguments[argument] = odd_numbers(draw, arguments[argument])
    return arguments


def _drawn(draw: Draw, name: str, names: list[str]) -> dict[str, Any] | None:
    """Return the arguments of an entry, or of an operator within its call, if it comes that far."""
    operator = name.removeprefix(_OPERATOR)
    own: list[Way] = [(entry, 0, None) for entry in entries().get(name, [])]
    ways = own or callers().get(operator, [])
    if not ways:
        return None
    way = draw.choice(ways)
    entry = way[0]
    try:
        arguments = dict(entry.make(AnyDraw(draw, draw.choice(entry.dtypes))))
    except _REFUSED:
        return None
    if own:
        return arguments
    calls = [args for func, args in _recorded(way, arguments) if func == operator]
    if not calls:
        return None
    values = pytree.tree_map(
        lambda v: v.detach() if isinstance(v, Tensor) else v, draw.choice(calls)
    )
    return dict(zip(names, values, strict=False))
