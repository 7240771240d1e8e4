"""How a run ended."""

import json
import os
import signal
from dataclasses import asdict, dataclass, field

from .durable import write_atomically
from .merge import Counts


@dataclass
class StageTimes:
    """What a stage has done so far: images and seconds.

    Attributes
    ----------
    batches, images : int
    busy, waiting_input, waiting_room : float
        Seconds at work; waiting for input; and waiting for the next stage to have room.
    starting, first : float, int
        Seconds until a source's first batch, in which workers start and import packages, and the
        images of that batch. They count neither as work nor in the rate.
    """

    name: str
    batches: int = 0
    images: int = 0
    busy: float = 0.0
    waiting_input: float = 0.0
    waiting_room: float = 0.0
    starting: float = 0.0
    first: int = 0

    def rate(self) -> float:
        """Images per second of work: the stage's speed if nothing held it up."""
        return (self.images - self.first) / self.busy if self.busy > 0 else 0.0


@dataclass
class Summary:
    """How a run ended.

    Attributes
    ----------
    counts : Counts
        Inputs of the plan, and how they ended, in this run or earlier ones.
    pending : int
        Inputs left for another run.
    done : int
        Inputs that this run finished.
    seconds : float
        Duration of the stages' work, from the first decoded batch on.
    starting : float
        Seconds before that: networks are loaded, workers start, packages are imported.
    stages : list of StageTimes
    retried : int
        Times that a model had to run a batch image by image.
    signal : int or None
        The signal that stopped the run.
    results : str or None
        The file of all results, if complete.
    """

    counts: Counts
    pending: int = 0
    done: int = 0
    seconds: float = 0.0
    starting: float = 0.0
    stages: list[StageTimes] = field(default_factory=list)
    retried: int = 0
    signal: int | None = None
    results: str | None = None

    @property
    def limiting(self) -> StageTimes | None:
        """The stage that worked the longest: the bottleneck. None where one batch is all."""
        if max((stage.batches for stage in self.stages), default=0) < 2:
            return None
        return max(self.stages, key=lambda stage: stage.busy, default=None)

    @property
    def exit_code(self) -> int:
        """0; 1 if inputs are unaccounted for; 128 + the signal's number if one stopped the run."""
        if self.signal is not None:
            return 128 + self.signal
        return 1 if self.counts.missing != self.pending else 0

    def save(self, out: str, name: str = "summary.json") -> None:
        """Write it into the folder of outputs."""
        data = asdict(self) | {"signal": self.signal and signal.Signals(self.signal).name}
        text = json.dumps(data, indent=2, sort_keys=True) + "\n"
        write_atomically(os.path.join(out, name), text.encode())
