"""Ranks as threads of this process, and the store at which they meet."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from visops.infer.cluster.rendezvous import Rank


def on_three_ranks(ask: Callable[[Rank], object]) -> list[object]:
    """Ask ranks at the same time; return what each says, or raises."""

    def answer(index: int) -> object:
        try:
            return ask(Rank(index, 3))
        except Exception as error:
            return error

    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(answer, range(3)))
