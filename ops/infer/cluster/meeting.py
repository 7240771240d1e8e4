"""Where ranks meet: a store of keys and values, that torchrun has or rank 0 opens.

A store may be older than the ranks: torchrun's outlives a restart of them, and the commands of one
script share it. What others have left in it must not be taken for an answer. So every rank asks
under a name that it has just drawn, and rank 0 answers to that name. No number tells one run from
another: machines count restarts each for itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist

__all__ = ["Meeting", "Rank", "torchrun_rank"]

T = TypeVar("T")

# Ranks start at about the same time; a store that is not there then is not to come.
CONNECTING_TIMEOUT = timedelta(minutes=5)
# Rank 0 may need long to list millions of files; the others have nothing else to do.
PLANNING_TIMEOUT = timedelta(hours=6)
# Rank 0 looks so often who has asked.
POLL_SECONDS = 0.05
# A TCPStore closes the connection at a value of 8 MiB.
CHUNK = 4 << 20

# A store that this process holds stays to its end: others may already ask for the next folder.
_held: dict[tuple[str, int], Any] = {}


@dataclass(frozen=True, slots=True)
class Rank:
    """Which of the processes this is.

    Attributes
    ----------
    index, world : int
        Of all processes.
    local : int
        Of those on this machine: the number of its GPU.
    """

    index: int
    world: int
    local: int = 0

    @property
    def manifest(self) -> str:
        """The name of this rank's own manifest."""
        return f"manifest.rank-{self.index:05d}.jsonl"

    @property
    def summary(self) -> str:
        """The name of this rank's own summary."""
        return f"summary.rank-{self.index:05d}.json"


def torchrun_rank(environ: Mapping[str, str] = os.environ) -> Rank | None:
    """Return this process's rank; None where it was not started by `torchrun`, or is alone.

    Raises
    ------
    ValueError
        The environment's numbers are no rank, or say of how many it is one, but not which.
    """
    if "WORLD_SIZE" not in environ or ("RANK" not in environ and environ["WORLD_SIZE"] == "1"):
        return None
    numbers = {name: environ.get(name, "") for name in ("RANK", "WORLD_SIZE")}
    numbers["LOCAL_RANK"] = environ.get("LOCAL_RANK", "0")
    try:
        index, world, local = map(int, numbers.values())
    except ValueError:
        index, world, local = -1, 0, 0
    if not 0 <= index < world or local < 0:
        given = ", ".join(f"{name}={value}" for name, value in numbers.items())
        raise ValueError(f"visops.infer: {given} in the environment is not a rank")
    return Rank(index, world, local) if world > 1 else None


class Meeting:
    """One run's talk between its ranks: rank 0 decides, and each says when it has finished.

    Parameters
    ----------
    rank : Rank
    environ : mapping
        Has the store's address, unless the rank is alone.

    Raises
    ------
    RuntimeError
        There is no address, or no store at it.
    """

    def __init__(self, rank: Rank, environ: Mapping[str, str] = os.environ) -> None:
        self._rank = rank
        self._session = secrets.token_hex(8)
        self._store = _store(rank, environ) if rank.world > 1 else None

    def agree(self, decide: Callable[[], T]) -> T:
        """Let rank 0 decide, and return its decision, of what JSON can hold, on every rank.

        There is no process group: that would connect every rank with every other one, for one
        message. An exception on rank 0 is raised on all of them, so that none waits for what never
        comes.
        """
        if self._store is None:
            return decide()
        if self._rank.index > 0:
            return self._heard()
        self._store.set("ask/0", self._session)
        error: Exception | None = None
        try:
            said: tuple[bool, Any] = (True, decide())
        except Exception as raised:
            said, error = (False, f"{type(raised).__name__}: {raised}"), raised
        self._tell(json.dumps(said))
        if error is not None:
            raise error
        return said[1]

    def finish(self) -> None:
        """Say that this rank has done its share."""
        if self._store is not None:
            # Who held the store may have ended: then it waits for nobody.
            with contextlib.suppress(RuntimeError):
                self._store.set(f"finished/{self._session}/{self._rank.index}", "")

    def others_have_finished(self) -> bool:
        """Whether all others have said so, or can't any more."""
        if self._store is None:
            return True
        others = set(range(self._rank.world)) - {self._rank.index}
        try:
            return bool(self._store.check([f"finished/{self._session}/{one}" for one in others]))
        except RuntimeError:
            return True  # the store has gone, with the machine that held it

    def _heard(self) -> Any:
        """Ask rank 0, and acknowledge its answer."""
        name, store = secrets.token_hex(8), self._store
        assert store is not None
        try:
            store.set(f"ask/{self._rank.index}", name)
            store.wait([f"answer/{name}"], PLANNING_TIMEOUT)
            self._session, chunks = json.loads(store.get(f"answer/{name}"))
            said = b"".join(store.get(f"said/{self._session}/{one}") for one in range(chunks))
            store.set(f"heard/{self._session}/{self._rank.index}", "")
        except RuntimeError as error:
            raise RuntimeError(
                f"visops.infer: rank {self._rank.index} has no answer of rank 0: {error}"
            ) from error
        done, value = json.loads(said)
        if not done:
            raise RuntimeError(f"visops.infer: rank 0 could not plan: {value}")
        return value

    def _tell(self, said: str) -> None:
        """Answer every rank, until each has acknowledged it.

        Whoever asks again is answered again: the first one to ask may have been killed before.
        """
        store, session = self._store, self._session
        assert store is not None
        chunks = [said[start : start + CHUNK] for start in range(0, len(said), CHUNK)]
        for number, chunk in enumerate(chunks):
            store.set(f"said/{session}/{number}", chunk)
        answer = json.dumps([session, len(chunks)])
        answered: dict[int, str] = {}
        left = set(range(1, self._rank.world))
        end = time.monotonic() + PLANNING_TIMEOUT.total_seconds()
        while True:
            if store.get("ask/0").decode() != session:
                raise RuntimeError(
                    "visops.infer: the ranks have been started again, with another rank 0; "
                    "this one ends"
                )
            for index in sorted(left):
                asks = f"ask/{index}"
                name = store.get(asks).decode() if store.check([asks]) else None
                # Looked at after its question: one that has heard may be asking for the next run.
                if store.check([f"heard/{session}/{index}"]):
                    left.discard(index)
                elif name is not None and answered.get(index) != name:
                    store.set(f"answer/{name}", answer)
                    answered[index] = name
            if not left:
                return
            if time.monotonic() >= end:
                raise RuntimeError(
                    f"visops.infer: ranks {sorted(left)} have not asked rank 0 within "
                    f"{PLANNING_TIMEOUT}"
                )
            time.sleep(POLL_SECONDS)


def _store(rank: Rank, environ: Mapping[str, str]) -> Any:
    """Connect to the store of the environment: torchrun's, or one that rank 0 opens."""
    try:
        host, port = environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
    except (KeyError, ValueError):
        raise RuntimeError(
            "visops.infer: ranks need MASTER_ADDR and MASTER_PORT in the environment; "
            "torchrun sets them"
        ) from None
    holds = rank.index == 0 and environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    store = _held.get((host, port)) if holds else None
    if store is None:
        try:
            store = dist.TCPStore(  # type: ignore[attr-defined]
                host,
                port,
                rank.world,
                is_master=holds,
                timeout=CONNECTING_TIMEOUT,
                wait_for_workers=False,
                multi_tenant=True,
            )
        except RuntimeError as error:
            raise RuntimeError(
                f"visops.infer: rank {rank.index} can't reach the store of rank 0 at "
                f"{host}:{port}: {error}"
            ) from error
        store.set_timeout(PLANNING_TIMEOUT)
    if holds:
        _held[host, port] = store
    # Ranks of another world, which may be ending while this one begins, are none of ours.
    return dist.PrefixStore(f"visops.infer/{rank.world}", store)  # type: ignore[attr-defined]
