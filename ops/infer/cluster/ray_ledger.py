"""The ledger that every worker of a Ray run asks before a batch: proceed, stop or give up.

Ray repeats a task whose worker died, for ever. That is right when a machine is taken away, and
wrong for a batch that kills its worker every time. Ray Data can't limit retries per batch, and
losing a machine would use up a global limit at once; so attempts are counted here.
"""

from collections import Counter

GO = "go"  # do the batch
STOP = "stop"  # the run is draining: leave the batch to the next run
ALONE = "alone"  # a worker died at it: ask again when no other batch could die with this one
LOST = "lost"  # too many workers died at it


class Ledger:
    """Counts, per stage and batch, the attempts that never ended.

    Parameters
    ----------
    attempts : int
        The number of workers that may die at one stage of a batch.
    """

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self._begun: Counter[tuple[str, int]] = Counter()
        self._draining = False

    def begin(self, stage: str, batch: int, first: bool, alone: bool = True) -> str:
        """Return what to do with a batch. Only the first stage stops: batches begun are finished.

        `alone` is False for a worker that may have another batch in progress. If a worker died at
        this batch before, it is told to come back alone, which does not count as an attempt.
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
        """Note that an attempt ended, with a result or an exception: it killed no worker."""
        self._begun.pop((stage, batch), None)

    def drain(self) -> None:
        """Let no further batch begin."""
        self._draining = True
