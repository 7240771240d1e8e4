"""What the conversions of all libraries share: one call of `convert`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..classes import types
from ..compose import Compose


def public_classes(*modules: Any) -> dict[str, Any]:
    """Return the public classes that modules define."""
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and name[0] != "_"
    }


def other_hue(name: str, library: str) -> str:
    """Return what a converted pipeline does otherwise, where it changes hues."""
    return f"{name} turns hues about the grey axis, where {library} shifts the H of HSV"


@dataclass
class Job:
    """One call of `convert`."""

    convert: Callable[[Any, "Job"], list[Any]]
    fills_masks: bool  # whether transforms say what masks are outside the image, as theirs do
    notes: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)  # of the chain, where the caller has none

    def steps(self, given: Any) -> list[Any]:
        """Return the steps that do what a transform, or a list of them, does."""
        return self.convert(given, self)

    def group(self, given: Any) -> Any:
        """Return one transform of a chooser: a chain, where it becomes several."""
        steps = self.steps(given) or [types.Identity()]
        return steps[0] if len(steps) == 1 else Compose(steps)
