"""Maps of vectors are no masks."""

import pytest
from visops import transforms as T


@pytest.mark.parametrize("kind", ["mask", "masks"])
@pytest.mark.parametrize("name", ["flow", "Normals", "optical_flow", "surface_normals"])
def test_vectors_are_refused_as_masks(kind: str, name: str) -> None:
    with pytest.raises(ValueError, match=rf"keys\['{kind}'\] names '{name}': .* vectors turn"):
        T.Compose([T.RandomHorizontalFlip()], keys={kind: ["seg", name]})


def test_other_kinds_and_names_are_taken() -> None:
    T.Compose([T.RandomHorizontalFlip()], keys={"mask": ["depth"], "other": ["flow"]})
