"""What is said of an operator for all checks of it: its calls, its derivatives, its errors."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import visops
from torch import Tensor
from torch.utils import _pytree as pytree

NAN, INF = float("nan"), float("inf")
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Sizes:
    """How large the tensors of a call are."""

    batch: int
    height: int
    width: int
    count: int  # of boxes, points or masks
    other: int  # of what they are compared with
    channels: int = 3


# A program that was compiled for "ordinary" and "second" must run "third" without another one.
SIZES = {
    "ordinary": Sizes(batch=2, height=9, width=11, count=7, other=14),
    "second": Sizes(batch=3, height=16, width=13, count=20, other=5),
    "third": Sizes(batch=5, height=23, width=8, count=33, other=70),
    "few": Sizes(batch=1, height=3, width=4, count=3, other=2),  # for finite differences
    "one": Sizes(batch=1, height=1, width=1, count=1, other=1),
    "empty": Sizes(batch=2, height=9, width=11, count=0, other=3),
    "no batch": Sizes(batch=0, height=9, width=11, count=0, other=0),
    # The sizes of "second", for calls that find one result, and none.
    "single": Sizes(batch=3, height=16, width=13, count=20, other=5),
    "nothing": Sizes(batch=3, height=16, width=13, count=20, other=5),
    "large": Sizes(batch=3, height=61, width=70, count=400, other=500),  # several tasks of a kernel
    # As many channels as make tasks of few boxes.
    "wide": Sizes(batch=2, height=30, width=40, count=60, other=20, channels=70),
}


class Draw:
    """Draws the tensors of one call: the same ones for the same case, sizes and seed."""

    def __init__(
        self, name: str, size: str, dtype: torch.dtype, seed: int = 0, turn: int = 0
    ) -> None:
        self.sizes, self.size, self.dtype, self.seed = SIZES[size], size, dtype, seed
        self.turn, self.turns = turn, 1
        self.rng = np.random.default_rng([zlib.crc32(f"{name}/{size}".encode()), seed])
        # What must not change from call to call: classes, channels, batch indices.
        self.fixed = np.random.default_rng(zlib.crc32(f"{name}/{size}".encode()))

    def choose(self, *options: Any) -> Any:
        """Return the first option; in a law that takes turns and in the fuzzer, others."""
        self.turns = max(self.turns, len(options))
        return options[self.turn % len(options)]

    def tensor(self, values: Any, dtype: torch.dtype | None = None) -> Tensor:
        return torch.from_numpy(np.asarray(values)).to(dtype or self.dtype)

    def normal(self, *shape: int) -> Tensor:
        return self.tensor(self.rng.standard_normal(shape))

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        return self.tensor(self.rng.uniform(low, high, shape))


Arguments = dict[str, Any]
Make = Callable[[Draw], Arguments]


class OneOf:
    """An argument that is one of a few: the first, where a law takes no turns."""

    def __init__(self, *options: Any) -> None:
        self.options = options


def with_options(make: Make, **options: Any) -> Make:
    """Return the arguments that `make` draws, with further ones."""

    def made(draw: Draw) -> Arguments:
        further = {
            name: draw.choose(*value.options) if isinstance(value, OneOf) else value
            for name, value in options.items()
        }
        return {**make(draw), **further}

    return made


@dataclass(frozen=True)
class OpCase:
    """A function or an operator, and what must hold for it.

    `make` draws the arguments of a call. Laws that need more than the defaults say are switched by
    the fields below; a field that excuses a case from a law says why where it is set.
    """

    name: str  # of the public function; more words tell several cases of it apart
    make: Make
    call: Callable[..., Any] | None = None  # by default the public function
    differentiable: tuple[str, ...] = ()  # the arguments that a gradient may be wanted of
    linear_in: tuple[str, ...] = ()  # those that their derivatives don't depend on
    mapped: tuple[str, ...] = ()  # the arguments that torch.vmap may map
    rows: tuple[str, ...] = ()  # whose first dimension is that of the results
    counted: bool = False  # how many results there are depends on values
    dtypes: tuple[torch.dtype, ...] = FLOATS
    layouts: tuple[str, ...] = ("strided",)  # further ones than contiguous
    finite_differences: bool = True  # gradients are those of the values
    indexed: str = ""  # the argument whose first column is an image's index, not a number
    twice: bool = True  # gradients have gradients
    exact: bool = True  # the same bits under torch.vmap and torch.compile; no matrix product
    half: bool = True  # halves are computed in float32 and rounded once
    autocast: bool = False  # casts to halves under autocast, as torch's layers do
    composed: bool = False  # of torch's operators alone
    compiled: bool = True  # into one graph; what returns lists of values breaks it
    static_fakes: bool = False  # a result's size is no expression of the arguments' sizes
    on_meta: bool = True  # tensors without values give a result without values
    waits: bool = False  # on CUDA, for numbers that it must know
    arrays: bool = True  # they are laid out as tensors; images may have channels last
    skip: frozenset[str] = field(default_factory=frozenset)  # sizes that are no valid call

    def __str__(self) -> str:
        return self.name

    @property
    def function(self) -> Callable[..., Any]:
        return self.call or getattr(visops, self.name.split()[0])

    def arguments(
        self,
        size: str = "ordinary",
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
        turn: int = 0,
    ) -> Arguments:
        return self.make(Draw(self.name, size, dtype, seed, turn))

    def turns(self, size: str) -> range:
        """Return as many turns as it takes to meet every option."""
        draw = Draw(self.name, size, torch.float32)
        self.make(draw)
        return range(draw.turns)

    def results(self, arguments: Mapping[str, Any]) -> list[Tensor]:
        """Call, and return all tensors of the result."""
        leaves = pytree.tree_leaves(self.function(**arguments))
        return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


@dataclass(frozen=True)
class Bad:
    """Changes to valid arguments, and what the error says of them."""

    error: type[Exception]
    changes: Arguments
    says: str
    arrays: bool  # the same for NumPy arrays, as ValueError


def bad(*, says: str, arrays: bool = True, **changes: Any) -> Bad:
    """Return a row of a table: a call that raises RuntimeError."""
    return Bad(RuntimeError, changes, says, arrays)


def bad_value(*, says: str, **changes: Any) -> Bad:
    """Return a row of a table: a call that raises ValueError."""
    return Bad(ValueError, changes, says, False)


def bad_type(*, says: str, **changes: Any) -> Bad:
    """Return a row of a table: a call that raises TypeError."""
    return Bad(TypeError, changes, says, False)


class Errors:
    """A valid call, and a line for each way to spoil it."""

    def __init__(
        self,
        valid: Arguments,
        *rows: Bad,
        call: Callable[..., Any] | None = None,
        named: str = "",
    ) -> None:
        self.valid, self.rows = valid, rows
        self.named = named  # in messages; else as the table
        self.call = call  # for a class; else the table's name is that of what is called
