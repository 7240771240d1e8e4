"""Interleaved benchmarks: what every ``python scripts/bench <op>`` shares.

A benchmark is a list of :class:`Case`. A case builds its contenders, ours first, which all do the
same job. For each case the harness

1. compares every peer's output with ours, and doesn't time a peer that differs by more than its
   stated tolerance: a ratio between different results means nothing;
2. times the contenders in turn, round after round in one process, so that a slower clock or a busy
   neighbour hurts all alike. The order changes each round, since each contender finds the cache as
   the one before it left it;
3. reports the minimum (what the code costs), the median (what it costs on a busy machine), and the
   ratio of the minima. A case that we lose is printed like the others.

Memory is measured in a separate process: see ``harness/memory.py``.
"""

from .contender import (
    EXACT,
    Case,
    Contender,
    Tolerance,
    case,
    compare,
    gradients,
    pair,
    pair_of_gradients,
    rows,
)
from .main import main

__all__ = [
    "EXACT",
    "Case",
    "Contender",
    "Tolerance",
    "case",
    "compare",
    "gradients",
    "main",
    "pair",
    "pair_of_gradients",
    "rows",
]
