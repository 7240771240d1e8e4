"""Where ranks meet: a key-value store, either torchrun's or one that rank 0 opens.

The store may be older than the ranks: torchrun's survives their restart, and the commands of one
script share it. An answer left by an earlier run must not be taken for a new one. So every rank
asks under a name it has just drawn at random, and rank 0 answers to that name. There is no number
that identifies a run: each machine counts restarts on its own.
"""

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

T = TypeVar("T")

# Ranks start at about the same time; a store still missing after this will not come.
CONNECTING_TIMEOUT = timedelta(minutes=5)
# Rank 0 may take long to list millions of files; the others have nothing else to do.
PLANNING_TIMEOUT = timedelta(hours=6)
# How often rank 0 looks for questions.
POLL_SECONDS = 0.05
# TCPStore closes the connection on a value of 8 MiB.
CHUNK = 4 << 20

# A store lives as long as this process: other ranks may already ask about the next folder.
_held: dict[tuple[str, int], Any] = {}


@dataclass(frozen=True, slots=True)
class Rank:
    """Which of the ranks this process is.

    Attributes
    ----------
    index, world : int
        Index of this process, and the number of all.
    local : int
        Index among the processes on this machine, which chooses the GPU.
    """

    index: int
    world: int
    local: int = 0

    @property
    def manifest(self) -> str:
        """File name of this rank's manifest."""
        return f"manifest.rank-{self.index:05d}.jsonl"

    @property
    def summary(self) -> str:
        """File name of this rank's summary."""
        return f"summary.rank-{self.index:05d}.json"


def torchrun_rank(environ: Mapping[str, str] = os.environ) -> Rank | None:
    """Return this process's rank; None if `torchrun` did not start it, or it is the only one.

    Raises
    ------
    ValueError
        The environment holds no valid rank, or the number of ranks but not this one's.
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


class Rendezvous:
    """The ranks of one run: rank 0 decides for all, and each says when it has finished.

    Parameters
    ----------
    rank : Rank
    environ : mapping
        Holds the store's address; unused if the rank is alone.

    Raises
    ------
    RuntimeError
        There is no address, or no store answers there.
    """

    def __init__(self, rank: Rank, environ: Mapping[str, str] = os.environ) -> None:
        self._rank = rank
        self._session = secrets.token_hex(8)
        self._store = _store(rank, environ) if rank.world > 1 else None

    def agree(self, decide: Callable[[], T]) -> T:
        """Let rank 0 decide, and return its decision, a JSON value, on every rank.

        This needs no process group, which would connect every rank with every other one for a
        single message. An exception on rank 0 is raised on all ranks, so that none waits for ever.
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
            # The store's process may have ended: then nobody is waiting.
            with contextlib.suppress(RuntimeError):
                self._store.set(f"finished/{self._session}/{self._rank.index}", "")

    def others_have_finished(self) -> bool:
        """Whether all other ranks have finished, or can no longer say so."""
        if self._store is None:
            return True
        others = set(range(self._rank.world)) - {self._rank.index}
        try:
            return bool(self._store.check([f"finished/{self._session}/{one}" for one in others]))
        except RuntimeError:
            return True  # the store is gone, with the process that held it

    def _heard(self) -> Any:
        """Ask rank 0, acknowledge its answer, and return it."""
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
                f"visops.infer: rank {self._rank.index} got no answer from rank 0: {error}"
            ) from error
        done, value = json.loads(said)
        if not done:
            raise RuntimeError(f"visops.infer: rank 0 could not plan: {value}")
        return value

    def _tell(self, said: str) -> None:
        """Answer every rank, until each has acknowledged it.

        A rank that asks again is answered again: the process that asked first may have been killed.
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
                    "visops.infer: the ranks were restarted, with another rank 0; this one ends"
                )
            for index in sorted(left):
                asks = f"ask/{index}"
                name = store.get(asks).decode() if store.check([asks]) else None
                # Checked after its question: a rank that has heard may be asking for the next run.
                if store.check([f"heard/{session}/{index}"]):
                    left.discard(index)
                elif name is not None and answered.get(index) != name:
                    store.set(f"answer/{name}", answer)
                    answered[index] = name
            if not left:
                return
            if time.monotonic() >= end:
                raise RuntimeError(
                    f"visops.infer: ranks {sorted(left)} did not ask rank 0 within "
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
    # Keep apart from ranks of another world size, which may be ending while these begin.
    return dist.PrefixStore(f"visops.infer/{rank.world}", store)  # type: ignore[attr-defined]
