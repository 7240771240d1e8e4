"""How a run ended."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, dataclass, field

from .durable import write_atomically
from .merge import Counts

__all__ = ["StageTimes", "Summary"]


@dataclass
class StageTimes:
    """What a stage has done so far, in images and seconds.

    Attributes
    ----------
    batches, images : int
    busy, waiting_input, waiting_room : float
        Seconds at work; with nothing to do; and with a result that the next stage has no room for.
    """

    name: str
    batches: int = 0
    images: int = 0
    busy: float = 0.0
    waiting_input: float = 0.0
    waiting_room: float = 0.0

    def rate(self) -> float:
        """Images per second of work: what the stage could do if nothing held it up."""
        return self.images / self.busy if self.busy > 0 else 0.0


@dataclass
class Summary:
    """How a run ended.

    Attributes
    ----------
    counts : Counts
        Inputs of the plan, and how they ended, in this run or an earlier one.
    pending : int
        Inputs that are left to a further run.
    done : int
        Inputs that this run has ended.
    seconds : float
        Of the stages' work.
    stages : list of StageTimes
    retried : int
        Times that a model's batch went image by image.
    signal : int or None
        What stopped the run.
    results : str or None
        The file of all results, if they are complete.
    """

    counts: Counts
    pending: int = 0
    done: int = 0
    seconds: float = 0.0
    stages: list[StageTimes] = field(default_factory=list)
    retried: int = 0
    signal: int | None = None
    results: str | None = None

    @property
    def limiting(self) -> StageTimes | None:
        """The stage that was at work the most."""
        return max(self.stages, key=lambda stage: stage.busy, default=None)

    @property
    def exit_code(self) -> int:
        """0; 1 if inputs are unaccounted for; 128 and the signal's number if one stopped it."""
        if self.signal is not None:
            return 128 + self.signal
        return 1 if self.counts.missing != self.pending else 0

    def save(self, out: str, name: str = "summary.json") -> None:
        """Write it into the folder of outputs."""
        data = asdict(self) | {"signal": self.signal and signal.Signals(self.signal).name}
        text = json.dumps(data, indent=2, sort_keys=True) + "\n"
        write_atomically(os.path.join(out, name), text.encode())
