"""The stages as Ray Data actors: what passes between them, and what each does to a batch.

Between actors a batch is one row of an Arrow table: the pixels raw, so that the next actor reads
them from shared memory without a copy, and everything else pickled. An exception is a value in its
row: if an actor raised it, Ray would end the whole run, or drop the row, without naming stage or
batch.
"""

import io
import json
import os
import pickle
import sys
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow as pa
import ray
import torch
from ray import cloudpickle

from ..batch import Batch
from ..engine.process import keep_freed_memory
from ..engine.work import Work
from ..engine.writers import write_batch
from ..images.decode import Decoder
from ..images.loading import decode_apart
from ..models.exported import PREFIX
from ..models.model import Model, load_model
from ..options import Options
from ..store.manifest import Commit
from ..store.plan import PlannedBatch
from .ray_ledger import ALONE, GO, LOST

_COLUMNS = ("number", "state", "payload", "pixels", "seconds", "retried")

# A row's state is the ledger's answer, or how the batch ended.
DONE = "done"
FAILED = "failed"


def planned_row(batch: PlannedBatch) -> dict[str, Any]:
    """Return the first row of a batch: only its plan."""
    row = _row(batch.number, GO, pickle.dumps(batch), {})
    return {name: column[0].as_py() for name, column in zip(_COLUMNS, row.columns, strict=True)}


def outcome(row: dict[str, Any]) -> Commit | tuple[str, BaseException] | None:
    """Return how a row ended: a commit, a stage and its error, or None if left undone."""
    if row["state"] == DONE:
        return Commit(**json.loads(row["payload"]))
    if row["state"] in (FAILED, LOST):
        failure: tuple[str, BaseException] = pickle.loads(row["payload"])
        return failure
    return None


def packed_models(models: Sequence[Model]) -> bytes:
    """Pickle models, TorchScript modules included.

    Raises
    ------
    TypeError
        One of them can't be pickled.
    """
    packed = io.BytesIO()
    try:
        with _by_value():
            _Pickler(packed).dump(list(models))
    except Exception as error:
        names = ", ".join(model.name for model in models)
        raise TypeError(
            f"visops.infer: models {names} can't be sent to Ray's workers: {error}"
        ) from error
    return packed.getvalue()


@contextmanager
def _by_value() -> Iterator[None]:
    """Send what users' Python files define, which workers can't import by name."""
    files = [module for name, module in list(sys.modules.items()) if name.startswith(PREFIX)]
    for module in files:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in files:
            cloudpickle.unregister_pickle_by_value(module)


class _Pickler(cloudpickle.CloudPickler):
    """Sends TorchScript modules as the bytes of a file, and exported networks as a path."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.jit.ScriptModule):
            file = io.BytesIO()
            torch.jit.save(value, file)
            return _scripted, (file.getvalue(),)
        exported = isinstance(value, Model) and isinstance(value.call, torch.fx.GraphModule)
        if exported and value.loaded is not None:
            path = os.path.abspath(value.loaded[0])
            return _reloaded, (type(value), path, {**vars(value), "call": None})
        return super().reducer_override(value)


def _scripted(data: bytes) -> torch.jit.ScriptModule:
    return torch.jit.load(io.BytesIO(data), map_location="cpu")


def _reloaded(kind: type[Model], path: str, fields: dict[str, Any]) -> Model:
    model = object.__new__(kind)
    vars(model).update(fields, call=load_model(path).call)
    return model


class _Actor(ABC):
    """Runs a stage if the ledger allows it; turns its exceptions into values.

    Parameters
    ----------
    stage : str
        Its name in the ledger and in errors.
    ledger : actor handle
    """

    first = False

    def __init__(self, stage: str, ledger: Any) -> None:
        self._stage, self._ledger = stage, ledger
        self._turns = _Turns()

    def __call__(self, table: pa.Table) -> pa.Table:
        """Take one row, and return it for the next stage."""
        if table["state"][0].as_py() != GO:
            return table
        number = table["number"][0].as_py()
        seconds: dict[str, float] = json.loads(table["seconds"][0].as_py())
        with self._turns.shared():
            done = self._ended(table, number, seconds, alone=False)
        if done is None:
            with self._turns.alone():
                done = self._ended(table, number, seconds, alone=True)
        assert done is not None, "the ledger never turns away an actor that is alone"
        return done

    def _ended(
        self, table: pa.Table, number: int, seconds: dict[str, float], *, alone: bool
    ) -> pa.Table | None:
        """Do what the ledger says about a batch; return None if it must be done alone."""
        state = self._begin(self._stage, number, alone)
        if state == ALONE:
            return None
        if state == LOST:
            return self.lost(table, number, seconds)
        if state != GO:
            return _row(number, state, b"", seconds)
        return self._attempt(self.do, self._stage, table, number, seconds)

    @abstractmethod
    def do(self, table: pa.Table, number: int, clock: "_Clock") -> pa.Table:
        """Do the stage's work on one row."""

    def lost(self, table: pa.Table, number: int, seconds: dict[str, float]) -> pa.Table:
        """Handle a batch that too many workers died at."""
        return _row(number, LOST, pickle.dumps((self._stage, _lost())), seconds)

    def _begin(self, stage: str, number: int, alone: bool = True) -> str:
        state: str = ray.get(self._ledger.begin.remote(stage, number, self.first, alone))
        return state

    def _attempt(
        self,
        do: "Callable[[pa.Table, int, _Clock], pa.Table]",
        stage: str,
        table: pa.Table,
        number: int,
        seconds: dict[str, float],
    ) -> pa.Table:
        """Run an attempt that the ledger has counted, and report its end."""
        clock = _Clock(self._stage, seconds)
        try:
            return do(table, number, clock)
        except Exception as error:
            failure = pickle.dumps((clock.stage, _portable(error)))
            return _row(number, FAILED, failure, seconds)
        finally:
            self._ledger.end.remote(stage, number)


class Decode(_Actor):
    """The stage "decode", on one core."""

    first = True

    def __init__(self, decoder: Decoder, ledger: Any) -> None:
        super().__init__("decode", ledger)
        torch.set_num_threads(1)
        self._decoder = decoder

    def do(self, table: pa.Table, number: int, clock: "_Clock") -> pa.Table:
        """Read the files of a planned batch."""
        plan = pickle.loads(table["payload"][0].as_py())
        return _packed(clock.time("decode", self._decoder.batch, plan), clock.seconds)

    def lost(self, table: pa.Table, number: int, seconds: dict[str, float]) -> pa.Table:
        """Decode image by image: the one that workers died at fails, the others go on."""
        stage = "decode apart"
        state = self._begin(stage, number)
        if state == GO:
            return self._attempt(self._do_apart, stage, table, number, seconds)
        if state == LOST:
            return super().lost(table, number, seconds)
        return _row(number, state, b"", seconds)

    def _do_apart(self, table: pa.Table, number: int, clock: "_Clock") -> pa.Table:
        plan = pickle.loads(table["payload"][0].as_py())
        return _packed(clock.time("decode", decode_apart, self._decoder, plan), clock.seconds)


class Networks(_Actor):
    """The stages from "collate" to "postprocess", which share a device and its memory.

    Several threads may call it. Each stage handles one batch at a time, so that one batch is copied
    to the device while the networks run on another.
    """

    _STAGES = ("collate", "preprocess", "forward", "postprocess")
    _NAMES = ("collate", "preprocess", "models", "postprocess")

    def __init__(self, root: str, models: bytes, options: Options, ledger: Any) -> None:
        super().__init__("models", ledger)
        self._root, self._models, self._options = root, models, options
        self._loading = threading.Lock()
        self._work: Work | None = None
        self._locks = [threading.Lock() for _ in self._STAGES]

    def do(self, table: pa.Table, number: int, clock: "_Clock") -> pa.Table:
        """Take a decoded batch to its results."""
        work = self._loaded()
        batch = _unpacked(table)
        for name, method, lock in zip(self._NAMES, self._STAGES, self._locks, strict=True):
            with lock:
                batch = clock.time(name, getattr(work, method), batch)
        return _packed(batch, clock.seconds)

    def _loaded(self) -> Work:
        """Load the models with the first batch: an error in __init__ would have no row to go to."""
        with self._loading:
            if self._work is None:
                work = Work(self._root, pickle.loads(self._models), self._options)
                work.load()
                if work.device.type == "cpu":
                    keep_freed_memory()  # the actor has this process to itself
                self._work = work
            return self._work


class Write(_Actor):
    """The stage "write": files only. The driver writes the line in the manifest."""

    def __init__(self, out: str, ledger: Any) -> None:
        super().__init__("write", ledger)
        self._out = out

    def do(self, table: pa.Table, number: int, clock: "_Clock") -> pa.Table:
        """Write a batch's files; writing them again gives the same files."""
        batch = _unpacked(table)
        commit = clock.time("write", write_batch, self._out, batch)
        payload = json.dumps(asdict(commit)).encode()
        return _row(number, DONE, payload, clock.seconds, retried=batch.retried)


def _lost() -> RuntimeError:
    return RuntimeError(
        "every worker that began it has died, from a crash, from lack of memory, or with its "
        "machine; see Ray's log"
    )


def _portable(error: Exception) -> Exception:
    """Return the exception if it can be pickled, else one with its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


class _Turns:
    """A lock that several threads share, or one holds alone."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._inside = 0
        self._taken = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Share the lock; wait while a thread holds it alone, or waits to."""
        with self._change:
            self._change.wait_for(lambda: not self._taken)
            self._inside += 1
        try:
            yield
        finally:
            with self._change:
                self._inside -= 1
                self._change.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until all other threads have left, and keep them out."""
        with self._change:
            self._change.wait_for(lambda: not self._taken)
            self._taken = True
            self._change.wait_for(lambda: not self._inside)
        try:
            yield
        finally:
            with self._change:
                self._taken = False
                self._change.notify_all()


class _Clock:
    """Times the stages of a batch, and knows the current one."""

    def __init__(self, stage: str, seconds: dict[str, float]) -> None:
        self.stage, self.seconds = stage, seconds

    def time(self, stage: str, work: Callable[..., Any], *arguments: Any) -> Any:
        self.stage = stage
        start = time.perf_counter()
        result = work(*arguments)
        self.seconds[stage] = time.perf_counter() - start
        return result


def _row(
    number: int,
    state: str,
    payload: bytes,
    seconds: dict[str, float],
    pixels: np.ndarray | None = None,
    retried: int = 0,
) -> pa.Table:
    """Return a table of one row; `pixels`, uint8, are not copied."""
    size = 0 if pixels is None else pixels.size
    offsets = pa.py_buffer(np.array([0, size], dtype=np.int64))
    data = pa.py_buffer(b"" if pixels is None else pixels)
    arrays = [
        pa.array([number], pa.int64()),
        pa.array([state], pa.string()),
        pa.array([payload], pa.large_binary()),
        pa.LargeBinaryArray.from_buffers(pa.large_binary(), 1, [None, offsets, data]),
        pa.array([json.dumps(seconds)], pa.string()),
        pa.array([retried], pa.int64()),
    ]
    return pa.table(arrays, names=_COLUMNS)


def _packed(batch: Batch, seconds: dict[str, float]) -> pa.Table:
    pixels = None if batch.pixels is None else batch.pixels.numpy()
    payload = pickle.dumps(replace(batch, pixels=None))
    return _row(batch.number, GO, payload, seconds, pixels)


def _unpacked(table: pa.Table) -> Batch:
    batch: Batch = pickle.loads(table["payload"][0].as_buffer())
    buffer = table["pixels"][0].as_buffer()
    if buffer is not None and len(buffer):
        with warnings.catch_warnings():
            # Ray's shared memory is read-only, about which torch warns; no stage writes to it.
            warnings.simplefilter("ignore")
            batch.pixels = torch.from_numpy(np.frombuffer(buffer, dtype=np.uint8))
    return batch
