"""What precedes the work of a run: locking the folder of outputs, and making the plan."""

import os
import time
from typing import Any

from ..images.listing import Inputs
from ..options import LATER
from ..store.durable import LockedFile, remove_leftovers
from ..store.manifest import committed_batches
from ..store.plan import Plan
from ..store.summary import StageTimes

PLAN = "plan.jsonl"
LOCK = "lock"


class OutputsLock:
    """Keeps other runs out of a folder of outputs.

    The process that plans holds it exclusively, then shares it with the other processes of its run.

    Attributes
    ----------
    alone : bool
        No other process can be there; always False on file systems without locks.

    Raises
    ------
    RuntimeError
        Another run is using the folder.
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
        """Let the other processes of this run in."""
        self.alone = False
        self._take(shared=True)

    def close(self) -> None:
        """Release the lock."""
        self._file.close()

    def _take(self, shared: bool) -> bool:
        try:
            return self._file.lock(shared=shared)
        except BlockingIOError:
            raise RuntimeError(
                f"visops.infer: another run is using {self._out}; wait for it to end, or choose "
                "another folder"
            ) from None


def check_folders(inputs: Inputs, out: str) -> None:
    """Refuse unsuitable folders before anything is created.

    Raises
    ------
    OSError
        The folder of images can't be listed.
    ValueError
        Both are the same folder.
    """
    with os.scandir(inputs.root):
        pass
    whole = inputs.files is None
    if whole and os.path.isdir(out) and os.path.samefile(inputs.root, out):
        raise ValueError(
            f"visops.infer: out is {out}, which is also the folder of images: a run would list its "
            "own files; choose another folder, such as one below it"
        )


def settled_plan(
    inputs: Inputs,
    out: str,
    wanted: dict[str, Any],
    batch_size: int,
    *,
    create: bool,
    alone: bool = False,
) -> tuple[Plan, StageTimes, bool]:
    """Return the plan of `out`, how long that took, and whether it differs from the one on disk.

    Parameters
    ----------
    inputs : Inputs
    out : str
    wanted : dict
        The settings that results depend on.
    batch_size : int
    create : bool
        List the images, and plan new ones.
    alone : bool
        No other process is using `out`: a plan without results may be replaced, and models may be
        added or removed.

    Raises
    ------
    ValueError
        The plan was made for other options, or for other images.
    """
    path = os.path.join(out, PLAN)
    start = time.perf_counter()
    listing = StageTimes("list")
    known = Plan.load(path)
    if known is None and not create:
        raise FileNotFoundError(f"visops.infer: there is no plan yet: no file {path}")
    real = os.path.realpath(inputs.root)
    plan = Plan(wanted, images=real) if known is None else known
    try:
        plan.check(wanted, out, LATER)
        if create:
            plan.check_images(real, out)
    except ValueError:
        replaced = _replaced(plan, wanted, real, out) if create and alone else None
        if replaced is None:
            raise
        plan = replaced
    changed = plan is not known
    if create:
        entries = inputs.entries(out)
        changed |= plan.extend(entries, batch_size) > 0
        listing.images = len(entries)
    listing.busy = time.perf_counter() - start
    return plan, listing, changed


def _replaced(plan: Plan, wanted: dict[str, Any], images: str, out: str) -> Plan | None:
    """Return what may take the place of a plan with other options or images.

    If nothing was computed, a plan without inputs: the first run failed, perhaps because of these
    very options. Else the same plan with other models, if nothing else differs.
    """
    computed = any(commit.ok for commit in committed_batches(out, plan).values())
    if not computed and not plan.earlier:
        return Plan(wanted, images=images)
    try:
        plan.check_images(images, out)
    except ValueError:
        return None
    return plan.with_models(wanted, LATER)


def clean(out: str) -> None:
    """Remove the temporary files of killed runs; no other process may be writing."""
    remove_leftovers(out, below=False)
    for folder in ("parts", "annotated", "pictures", "masks"):
        remove_leftovers(os.path.join(out, folder))
