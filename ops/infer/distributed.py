"""Runs over the ranks of ``torchrun``: the public names of :mod:`visops.infer.cluster`."""

from .cluster.distributed import merge, run_rank, share, wait_for_file
from .cluster.rendezvous import Rank, torchrun_rank

__all__ = ["Rank", "merge", "run_rank", "share", "torchrun_rank", "wait_for_file"]
