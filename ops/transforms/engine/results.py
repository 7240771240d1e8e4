"""What a chain's calls take by name, and what its results come out as."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ..sample.leaf import Leaf


@dataclass(frozen=True, slots=True)
class Forms:
    """The types of a chain's results, where its transforms say so."""

    image: str = ""
    targets: str = ""

    def apply(self, leaves: Sequence[Leaf]) -> None:
        """Note the types in the leaves."""
        if self.image or self.targets:
            for leaf in leaves:
                leaf.form = self.image if leaf.kind == "image" else self.targets


def forms_of(transforms: Sequence[Any]) -> Forms:
    """Return what a chain's results come out as; its last word counts."""
    image = targets = ""
    for transform in transforms:
        if image.startswith("pil"):
            raise ValueError(
                "visops.transforms.ToPILImage: it is followed by "
                f"{type(transform).__name__}, must be the last transform of a chain"
            )
        form = getattr(transform, "form", "")
        if isinstance(form, str) and form:
            image = form
            targets = "pure" if form == "pure" else targets
    return Forms(image, targets)


def reject_named(named: Mapping[str, Any]) -> NoReturn:
    """Raise the error of a call that gives a sample's parts by name, as albumentations takes it."""
    names = ", ".join(f"{name}=..." for name in named)
    entries = ", ".join(f"{name!r}: ..." for name in named)
    raise TypeError(
        f"visops.transforms.Compose: got {names}, takes the sample as one dict: "
        f"chain({{{entries}}})"
    )
