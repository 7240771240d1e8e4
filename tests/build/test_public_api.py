"""The public interface. A change here is a change for users: it belongs in the changelog."""

import importlib
import importlib.machinery
import pkgutil
from pathlib import Path
from typing import Any, assert_type

import fresh
import pytest
import torch
import visops  # registers the operators
from visops import transforms
from visops.masks import RLE

NAMES = {
    "visops.infer": """
        Auto Classification Commit Counts Decoder Detection Entry IMAGENET_MEAN IMAGENET_STD Job
        Model Options Pipeline Placement Plan PlannedBatch PostProcess Preprocess Raw Regions
        Segmentation StageError StageTimes Summary keep_freed_memory list_images load_model
        load_models run run_lengths
    """,
    "visops.compare": """
        Comparison Values compare
    """,
    "visops.onnx": """
        translation_table
    """,
    "visops.compat": """
        DeformConv2dPack MSDeformAttn ModulatedDeformConv2dPack MultiScaleDeformableAttnFunction
        RoIAlign affine_opencv affine_torch batched_nms get_compiler_version
        get_compiling_cuda_version ms_deform_attn_backward ms_deform_attn_forward
        multi_scale_deformable_attn_pytorch nms roi_align soft_nms
    """,
}


@pytest.mark.parametrize("module", NAMES)
def test_names(module: str) -> None:
    found = importlib.import_module(module)
    assert sorted(found.__all__) == NAMES[module].split()
    missing = [name for name in found.__all__ if not hasattr(found, name)]
    assert not missing


def packages() -> list[str]:
    """Return the packages whose names users see when they complete `visops.`."""
    found = pkgutil.walk_packages(visops.__path__, "visops.")
    return ["visops", *(m.name for m in found if m.ispkg and "._" not in m.name)]


# In a process of its own, where no other test has imported modules that become attributes.
STRAY_NAMES = """
import importlib, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    listed = getattr(package, "__all__", ())
    names = [key for key in dir(package) if not key.startswith("_") and key not in listed]
    for key in names:
        if not getattr(getattr(package, key), "__name__", "").startswith(f"{name}."):
            print(f"{name}.{key}")
"""


def test_packages_have_no_names_but_their_own() -> None:
    """What a package imports for itself is not what it gives: `visops.Any`, `compat.np`."""
    assert fresh.run(STRAY_NAMES, *packages(), check=True).stdout == ""


def test_names_of_other_rooms() -> None:
    """`visops.infer` loads by itself, and who looks for a transform here is told where it is."""
    found = fresh.run("import visops; print(visops.infer.run.__module__)")
    assert found.stdout == "visops.infer.engine.pipeline\n"
    for name in ("Compose", "Loader", "RandomResizedCrop"):
        with pytest.raises(AttributeError, match=f"{name!r}; use visops.transforms.{name}$"):
            getattr(visops, name)
    with pytest.raises(AttributeError, match=r"'ROIAlign'; use RoIAlign$"):
        _ = visops.ROIAlign  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"'paste_masks_in_image'; use paste_masks$"):
        _ = visops.paste_masks_in_image  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"'visops' has no attribute 'crop_boxes'$"):
        _ = visops.crop_boxes  # type: ignore[attr-defined]


def test_second_names() -> None:
    assert visops.transforms.RandomAugment is visops.transforms.RandAugment
    assert visops.transforms.TrivialAugmentWide is visops.transforms.TrivialAugment


def test_the_package_lies_in_a_folder_of_its_name() -> None:
    """Type checkers and editors follow no import hooks, which editable installs would use."""
    found = importlib.machinery.PathFinder.find_spec("visops")
    assert found is not None
    assert found.origin is not None
    assert Path(found.origin).parent.name == "visops"


def test_types_of_results() -> None:
    """Type checkers know what calls return: `make typecheck` reads this, and the rest runs."""
    chain = transforms.Compose([transforms.RandomHorizontalFlip()])
    sample: Any = {"image": torch.zeros(3, 8, 8)}
    result, params = chain(sample, return_params=True)
    assert_type(params, transforms.Parameters)
    alone = transforms.RandomHorizontalFlip()(sample, return_params=True)
    assert_type(alone[1], transforms.Parameters)
    assert list(result) == ["image"]

    def stack(samples: list[torch.Tensor]) -> list[int]:
        return [int(image.sum()) for image in samples]

    images = [torch.full((1, 2, 2), i, dtype=torch.uint8) for i in range(3)]
    for sums in transforms.Loader(images, chain, 3, collate=stack):
        assert_type(sums, list[int])
        assert sums == [0, 4, 8]
    loader: transforms.Loader[torch.Tensor] = transforms.Loader(images, chain, 3)
    for batch in loader:
        assert assert_type(batch, torch.Tensor).shape == (3, 1, 2, 2)

    packed = visops.pack_masks(torch.zeros(2, 4, 6, dtype=torch.bool))
    rles = assert_type(visops.masks_to_rle(packed), list[RLE])
    assert assert_type(rles[0]["size"], list[int]) == [4, 6]
