"""What all tests of inference share."""

import pytest


@pytest.fixture(autouse=True)
def memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command lets malloc keep freed memory for the rest of its process: not of this one.

    Tests that limit memory would find what earlier tests have freed.
    """
    monkeypatch.setattr("visops.infer.engine.process.keep_freed_memory", lambda: True)
