"""Loaders that begin at the same time and share what is made on first use."""

from pathlib import Path

import fresh

from .race import BATCH, COUNT, LOADERS, ROUNDS

CASES = 5


def test_loaders_that_begin_together() -> None:
    """In a process of its own, with frequent switches of threads."""
    program = "from transforms.loader import race; race.main()"
    done = fresh.run(program, cwd=Path(__file__).parents[2], check=True)
    assert done.stdout == f"{ROUNDS * CASES * LOADERS * COUNT // BATCH} equal\n"
