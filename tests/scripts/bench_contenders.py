"""What tests of benchmarks ask of a case: contenders agree, and a wrong one would not."""

from typing import Any

import numpy as np
from bench.harness import Case, compare


def _mirrored(output: Any) -> Any:
    """The same output, wrong."""
    if isinstance(output, (list, tuple)):
        return [_mirrored(part) for part in output]
    return np.flip(output, -1).copy() if isinstance(output, np.ndarray) else output.flip(-1)


def check_contenders(case: Case) -> None:
    """Compare outputs as the benchmark does; and a wrong one must differ."""
    contenders = case.build()
    ours = contenders[0].output()
    wrong = _mirrored(ours)
    for peer in contenders[1:]:
        difference = compare(ours, peer.output())
        assert difference.within(peer.tolerance), f"{peer.name}: {difference}, {peer.tolerance}"
        assert not compare(ours, wrong).within(peer.tolerance), f"{peer.name}: allows anything"
