"""Interleaved benchmarks: the part that every ``scripts/bench/<op>.py`` shares.

A benchmark is a list of :class:`Case`; a case builds its contenders, ours first and the peers after
it, all of which do the same job. For each case the harness

1. compares every peer's output with ours and refuses to time a peer that differs by more than its
   stated tolerance: a ratio between different results means nothing;
2. times the contenders in turn, round after round within one process, so that a clock that slows
   down or a neighbour that takes the core hurts all of them alike, and starts each round with
   another contender, since each finds the cache as the one before it left it;
3. reports the minimum (what the code costs) and the median (what a busy machine makes of it), and
   the ratio of the minima. A case that we lose is printed like the others.

Memory is measured apart, in a process of its own: see ``harness/memory.py``.
"""

from .contender import EXACT, Case, Contender, Difference, Tolerance, case, compare
from .main import main
from .timing import Timing, interleave, set_threads

__all__ = [
    "EXACT",
    "Case",
    "Contender",
    "Difference",
    "Timing",
    "Tolerance",
    "case",
    "compare",
    "interleave",
    "main",
    "set_threads",
]
