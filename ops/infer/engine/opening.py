"""What comes before a run's work: the lock of the folder of outputs, and the plan in it."""

from __future__ import annotations

import os
import time
from typing import Any

from ..images.listing import list_images
from ..store.durable import remove_leftovers
from ..store.locking import LockedFile
from ..store.plan import Plan
from ..store.summary import StageTimes

__all__ = ["LOCK", "PLAN", "OutputsLock", "check_folders", "clean", "settled_plan"]

PLAN = "plan.jsonl"
LOCK = "lock"


class OutputsLock:
    """Keeps other runs out of a folder of outputs.

    Who plans is alone there; then it shares the lock with the other processes of its run.

    Attributes
    ----------
    alone : bool
        Nobody else can be there: not so on file systems without locks.

    Raises
    ------
    RuntimeError
        Another run is at work there.
    """

    def __init__(self, out: str, *, shared: bool) -> None:
        self._out = out
        self._file = LockedFile(os.path.join(out, LOCK))
        try:
            self.alone = self._take(shared) and not shared
        except BaseException:
            self._file.close()
            raise

    def share(self) -> None:
        """Let the other processes of this run come in."""
        self.alone = False
        self._take(shared=True)

    def close(self) -> None:
        """Let go of it."""
        self._file.close()

    def _take(self, shared: bool) -> bool:
        try:
            return self._file.lock(shared=shared)
        except BlockingIOError:
            raise RuntimeError(
                f"visops.infer: another run is at work in {self._out}; wait for its end, or choose "
                "another folder"
            ) from None


def check_folders(images: str, out: str) -> None:
    """Refuse folders before anything is made.

    Raises
    ------
    OSError
        That of images can't be listed.
    ValueError
        They are one.
    """
    with os.scandir(images):
        pass
    if os.path.isdir(out) and os.path.samefile(images, out):
        raise ValueError(
            f"visops.infer: out is {out}, which is the folder of images too: a run would list its "
            "own files; choose another folder, such as one below it"
        )


def settled_plan(
    images: str, out: str, wanted: dict[str, Any], batch_size: int, *, create: bool
) -> tuple[Plan, StageTimes, bool]:
    """Return the plan of `out`, how long that took, and whether it is another one than on the disk.

    Parameters
    ----------
    images, out : str
    wanted : dict
        The options that results depend on.
    batch_size : int
    create : bool
        List the images, and plan what is new.

    Raises
    ------
    ValueError
        The plan is one of other options, or of other images.
    """
    path = os.path.join(out, PLAN)
    start = time.perf_counter()
    listing = StageTimes("list")
    known = Plan.load(path)
    if known is None and not create:
        raise FileNotFoundError(f"visops.infer: {path}: no plan is there yet")
    real = os.path.realpath(images)
    plan = Plan(wanted, images=real) if known is None else known
    plan.check(wanted, out)
    new = 0
    if create:
        plan.check_images(real, out)
        entries = list_images(images, leave_out=out)
        new = plan.extend(entries, batch_size)
        listing.images = len(entries)
    listing.busy = time.perf_counter() - start
    return plan, listing, new > 0 or known is None


def clean(out: str) -> None:
    """Remove what killed runs have left; only where nobody else can be writing."""
    remove_leftovers(out, below=False)
    for folder in ("parts", "annotated", "pictures"):
        remove_leftovers(os.path.join(out, folder))
