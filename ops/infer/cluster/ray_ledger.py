"""What all workers of a Ray run ask before each batch: whether to go on, and how often it failed.

Ray repeats a task whose worker died, without end. That is right for machines that are taken away,
and wrong for a batch that kills its worker each time. Retries can't be limited per batch in Ray
Data, and a lost machine uses up limited ones at once; so attempts are counted here instead.
"""

from __future__ import annotations

from collections import Counter

__all__ = ["ALONE", "GO", "LOST", "STOP", "Ledger"]

GO = "go"  # do it
STOP = "stop"  # the run is draining: leave it to the next one
ALONE = "alone"  # a worker has died at it: come again when no other batch would die with you
LOST = "lost"  # too many workers have died at it


class Ledger:
    """Counts the attempts at each stage of each batch that never came to an end.

    Parameters
    ----------
    attempts : int
        So many workers may die at one stage of a batch.
    """

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self._begun: Counter[tuple[str, int]] = Counter()
        self._draining = False

    def begin(self, stage: str, batch: int, first: bool, alone: bool = True) -> str:
        """Return what to do with a batch. Only its first stage is stopped: begun ones are ended.

        Who may be doing another batch at the same time is not `alone`, and told so where a worker
        has died before; that is no attempt.
        """
        if self._begun[stage, batch] >= self._attempts:
            return LOST
        if self._draining and first:
            return STOP
        if self._begun[stage, batch] and not alone:
            return ALONE
        self._begun[stage, batch] += 1
        return GO

    def end(self, stage: str, batch: int) -> None:
        """Note that an attempt came back, with a result or an exception: it killed nobody."""
        self._begun.pop((stage, batch), None)

    def drain(self) -> None:
        """Let no further batch begin."""
        self._draining = True
