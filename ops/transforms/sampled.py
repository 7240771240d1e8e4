"""What reads pixels between their centres: by one interpolation, or one drawn for each sample."""

from typing import Any

from .._native import Step
from .arguments import interpolation_modes
from .transform import Builtin


class Sampled(Builtin):
    """A transform with the arguments `interpolation` and perhaps `antialias`.

    Each sample draws one of several interpolations, by a uniform number after the transform's own.
    """

    interpolation: str | tuple[str, ...]
    antialias: bool

    def sample_by(self, interpolation: Any, antialias: bool | None = None) -> None:
        """Check the arguments, and keep them; None: the transform has no `antialias`."""
        modes = interpolation_modes(type(self).__name__, interpolation, bool(antialias))
        self.interpolation = modes
        self.draws = type(self).draws + isinstance(modes, tuple)
        if antialias is not None:
            self.antialias = bool(antialias) and modes != "nearest"

    def sampled(self, step: Step) -> Step:
        """Return a step that draws the interpolation as well, if it is drawn."""
        if isinstance(self.interpolation, tuple):
            return Step.interpolated(step, len(self.interpolation))
        return step
