"""How plans describe a post-processing: the same in every process, different if it differs."""

import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import torch
from visops.infer import Auto, Detection, Model
from visops.infer.models.describe import describe
from visops.infer.models.model import weights_digest

from infer.described import Fields, Own, over
from infer.folders import Network


def said(value: Any) -> str:
    return describe(value, weights_digest)


def plain(output: Any, placements: Any) -> Any:
    return [{} for _ in placements]


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any) -> None:
        self.a = a


MAKERS: list[Any] = [
    lambda: plain,
    lambda: over(0.5),
    lambda: over(0.6),
    lambda: partial(over, threshold=0.5),
    lambda: partial(plain, 3),
    lambda: Own(0.5),
    lambda: Own(0.6),
    lambda: Own(0.5, plain),
    lambda: Own(0.5, Own(0.5)),
    lambda: Own(0.5).__call__,
    lambda: Own(0.6).__call__,
    lambda: Own(0.5, (1, "a", None)),
    lambda: partial(plain, {"a": [Own(1), (2, {3})]}),
    lambda: partial(plain, {"a": [Own(1), (2, {4})]}),
    lambda: Own(0.5, torch.tensor([1.0, 2.0])),
    lambda: Own(0.5, np.array([1.0, 3.0])),
    lambda: Own(0.5, Network(0)),
    lambda: Own(0.5, Network(1)),
    lambda: Fields(plain),
    lambda: Fields(Own(0.5)),
    lambda: Slotted(1),
    lambda: Slotted(2),
    lambda: Auto(detection=over(0.5)),
    lambda: Auto(detection=Detection(0.3)),
    lambda: Own,
    lambda: len,
]


def test_equal_objects_have_equal_descriptions_and_others_do_not() -> None:
    names = [said(make()) for make in MAKERS]
    assert names == [said(make()) for make in MAKERS]
    assert len(set(names)) == len(names)
    assert not any("0x" in name for name in names)


def test_objects_with_a_repr_keep_it() -> None:
    assert said(Auto()) == repr(Auto())
    assert said(plain) == "infer.test_describe.plain"


def test_collections_in_closures_are_left_out() -> None:
    calls: list[int] = []
    own = Own(0.5, calls)

    def counting(output: Any, placements: Any) -> Any:
        calls.append(1)

    before = said(counting), said(own)
    counting(None, None)
    assert (said(counting), said(own)) == before


def test_objects_that_refer_to_each_other() -> None:
    own = Own(0.5)
    own.inner = own
    assert said(own).count("Own") < 20


PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:]
from infer.described import Fields, Own, over
from visops.infer import Model
for postprocess in (over(0.5), Own(0.5, frozenset('abc')), Fields({"c", "a", "b"})):
    print(Model("net", len, postprocess=postprocess).fingerprint()["postprocess"])
"""


def test_descriptions_are_equal_in_another_process() -> None:
    run = [sys.executable, "-c", PROGRAM, *sys.path]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    here = [over(0.5), Own(0.5, frozenset("abc")), Fields({"c", "a", "b"})]
    named = [Model("net", len, postprocess=one).fingerprint()["postprocess"] for one in here]
    assert printed.splitlines() == named
