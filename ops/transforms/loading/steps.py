"""What happens to a sample, and what of it holds the interpreter's lock: ``print(loader)``."""

from collections.abc import Sequence
from typing import Any

from ..chain.compile import slow_passes
from ..classes.views import Views
from ..compose import Compose
from .samples import draws_apart

_HOLDS = "holds it, but for pixels"


def steps_of(loader: Any) -> list[str]:
    """Return what a loader does with a sample, line by line."""
    name = type(loader.dataset).__name__
    method = "__iter__" if loader.is_stream else "__getitem__"
    lines = [f"  read: {name}.{method}, which holds the interpreter's lock but for its I/O"]
    chain = loader.chain
    if not draws_apart(chain):
        lines.append(
            "  all but decoding in the thread that asks for batches: some of it may draw from "
            "Python's or NumPy's generators"
        )
    if loader.augment_on == "device":
        names = _names(chain.transforms)
        lines.append(f"  decode: without the lock; on {loader.device}, by batches: {names}")
    elif isinstance(chain, Compose):
        lines += _passes(chain)
    elif isinstance(chain, Views):
        slow = [reason for own in chain.chains for _, reason in slow_passes(own)]
        lock = f"{_HOLDS}: {slow[0]}" if slow else "without the lock"
        once = ", each file decoded once" if chain.decodes_once else ""
        lines.append(f"  {len(chain.chains)} views{once}: {lock}")
    else:
        lines.append(f"  {type(chain).__name__}: holds it")
    if loader.collate is not None:
        lines.append("  collate: holds it")
    return lines


def _passes(chain: Compose) -> list[str]:
    slow = {id(part): reason for part, reason in slow_passes(chain)}
    lines = []
    for number, part in enumerate(chain.passes, start=1):
        reason = slow.get(id(part))
        lock = "without the lock" if reason is None else f"{_HOLDS}: {reason}"
        lines.append(f"  pass {number}: {_names(part.transforms)}: {lock}")
    return lines


def _names(transforms: Sequence[Any]) -> str:
    return ", ".join(type(own).__name__ for own in transforms)
