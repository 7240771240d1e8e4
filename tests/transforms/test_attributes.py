"""Attributes set after a transform was made act at once, or are refused."""

import copy
import inspect
import pickle
from collections import defaultdict
from typing import Any

import pytest
import torch
from bad_input import check
from visops import transforms as T

PHOTO = torch.randint(0, 256, (3, 24, 32), dtype=torch.uint8, generator=torch.Generator())

# A transform, an argument, and another value of it.
CHANGES: list[tuple[Any, str, Any]] = [
    (lambda: T.RandAugment(2), "magnitude", 29),
    (lambda: T.RandAugment(2), "num_ops", 4),
    (lambda: T.TrivialAugment(), "num_magnitude_bins", 3),
    (lambda: T.ColorJitter(), "brightness", (0.2, 0.3)),
    (lambda: T.ColorJitter(), "hue", (0.2, 0.3)),
    (lambda: T.RandomHorizontalFlip(0.0), "p", 1.0),
    (lambda: T.RandomRotation((5, 5)), "degrees", (40, 40)),
    (lambda: T.RandomRotation((5, 5)), "interpolation", "bicubic"),
    (lambda: T.RandomRotation((45, 45)), "fill", 200),
    (lambda: T.RandomAffine((0, 0)), "shear", (20, 20)),
    (lambda: T.Resize((10, 10)), "size", (12, 12)),
    (lambda: T.Resize((10, 10)), "antialias", False),
    (lambda: T.RandomCrop(20), "size", 10),
    (lambda: T.RandomResizedCrop(20), "scale", (0.1, 0.11)),
    (lambda: T.CenterCrop(20), "size", 10),
    (lambda: T.Pad(1), "padding", 2),
    (lambda: T.RandomErasing(1.0), "value", 7),
    (lambda: T.RandomGrayscale(0.0), "p", 1.0),
    (lambda: T.RandomPerspective(0.1, p=1.0), "distortion_scale", 0.9),
    (lambda: T.ToDtype(torch.float32), "scale", True),
    (lambda: T.ToDtype(torch.float32, True), "dtype", torch.float16),
    (lambda: T.RandomApply([T.Pad(1)], p=0.0), "p", 1.0),
    (lambda: T.RandomChoice([T.Pad(1), T.Pad(2)], p=[1, 0]), "p", [0, 1]),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: f"{type(c[0]()).__name__}.{c[1]}")
def test_arguments_set_later_act_as_given_at_once(change: tuple[Any, str, Any]) -> None:
    make, name, value = change
    transform = make()
    around = [T.Pad(1), transform] if name != "value" else [transform]
    chain = T.Compose(around, seed=0)
    before = [chain(PHOTO, index=i) for i in range(6)]
    setattr(transform, name, value)
    cls = type(make())
    given = inspect.signature(cls.__init__).bind(None, **make().__dict__["_given"]).arguments
    given.pop("self")
    fresh = cls(**{**given, name: value})
    expected = T.Compose([T.Pad(1), fresh] if len(around) > 1 else [fresh], seed=0)
    found = [chain(PHOTO, index=i) for i in range(6)]
    wanted = [expected(PHOTO, index=i) for i in range(6)]
    assert all(map(torch.equal, found, wanted))
    assert not all(map(torch.equal, found, before))
    assert repr(transform) == repr(fresh)
    again = pickle.loads(pickle.dumps(transform))
    setattr(copy.deepcopy(again), name, value)


def test_what_has_no_effect_is_refused() -> None:
    rotation = T.RandomRotation(5)
    message = "transforms.RandomRotation: angle is no argument of it; must be one of degrees, "
    check(AttributeError, message, lambda: setattr(rotation, "angle", 3))
    check(
        ValueError,
        "transforms.RandomRotation: interpolation is 'cubic'",
        lambda: setattr(rotation, "interpolation", "cubic"),
    )
    assert T.Compose([rotation])(PHOTO).shape == PHOTO.shape  # as before
    apply = T.RandomApply([T.Pad(1)])
    message = "transforms.RandomApply: transforms can't be set any more, must be given when it is"
    check(AttributeError, message, lambda: setattr(apply, "transforms", []))
    chain = T.Compose([T.Pad(1)])
    message = "transforms.Compose: boxes can't be set any more, must be given when it is made"
    check(AttributeError, message, lambda: setattr(chain, "boxes", "clamp"))
    check(AttributeError, message.replace("boxes", "exact"), lambda: setattr(chain, "exact", True))
    chain.seed = 3
    assert torch.equal(chain(PHOTO, index=0), T.Compose([T.Pad(1)], seed=3)(PHOTO, index=0))
    grey: Any = T.Grayscale()
    chain = T.Compose([grey])
    assert chain(PHOTO).shape[0] == 1
    grey.num_output_channels = 3
    assert chain(PHOTO).shape[0] == 3
    mix = T.MixUp(alpha=1.0)
    mix.alpha = 0.5
    assert mix.alpha == 0.5
    message = "transforms.MixUp: lam is no argument of it; must be one of alpha"
    check(AttributeError, message, lambda: setattr(mix, "lam", 0.5))


def test_one_s_own_transforms_may_have_any_attribute() -> None:
    class Own(T.Transform):
        def effects(self) -> T.Effects:
            return T.Effects(colors=1)

        def extend(self, plan: T.Plan, params: Any) -> None:
            plan.color([self.factor, 0.0])

    own = Own()
    own.factor = 0.5  # type: ignore[assignment]
    chain = T.Compose([own])
    image = torch.ones(1, 2, 2)
    assert chain(image).max() == 0.5
    own.factor = 0.25  # type: ignore[assignment]
    assert chain(image).max() == 0.25


def test_a_fill_that_cannot_be_pickled_is_left_behind() -> None:
    pad = T.Pad(1, fill=defaultdict(lambda: 9))
    again = pickle.loads(pickle.dumps(pad))
    assert torch.equal(again(PHOTO), pad(PHOTO))
    message = "transforms.Pad: padding can't be set any more, must be given when it is made"
    check(AttributeError, message, lambda: setattr(again, "padding", 2))


def test_other_transforms_passes_stay_compiled() -> None:
    """Making a transform, or setting an attribute of another, drops nothing."""
    chain = T.Compose([T.RandomHorizontalFlip(), T.ToDtype(torch.float32)], seed=0)
    chain(PHOTO, index=0)
    chain(PHOTO, index=0)
    kept = chain.passes[0].compiled
    other = T.Resize(8)
    other.size = 9  # type: ignore[assignment]
    other(PHOTO)
    chain(PHOTO, index=0)
    assert chain.passes[0].compiled is kept
    chain.transforms[0].p = 1.0
    assert torch.equal(chain(PHOTO, index=0), PHOTO.flip(-1).float())
