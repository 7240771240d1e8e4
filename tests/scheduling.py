"""Distributes tests to processes as pytest-xdist does, in time that grows with their number.

Whenever a test is done, xdist counts those of its process that aren't, among all that it was given,
and searches the next one's position: for 20,000 tests, half a minute of a core.
"""

from collections.abc import Sequence
from typing import Any

from xdist.scheduler import LoadGroupScheduling


class Positions(list[str]):
    """The names of all tests, which knows where each is."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._of = {name: position for position, name in enumerate(names)}

    def index(self, name: str, *_: Any) -> int:  # type: ignore[override]
        return self._of[name]


class Scheduling(LoadGroupScheduling):
    """Forgets groups that are done."""

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = Positions(self.registered_collections[node])

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        given = self.assigned_work[node]
        group = self._split_scope(self.registered_collections[node][item_index])
        super().mark_test_complete(node, item_index, duration)
        if all(given[group].values()):
            del given[group]
