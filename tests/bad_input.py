"""Tables of bad input: a row is the error, its message and the call that must raise it."""

import re
from collections.abc import Callable
from typing import Any

import pytest

Call = Callable[[], Any]
Row = tuple[type[Exception], str, Call]


def table(*rows: Row) -> Any:
    """Parametrise a test over `error`, `message` and `call`."""
    return pytest.mark.parametrize(
        ("error", "message", "call"), rows, ids=[r[1][:60] for r in rows]
    )


def check(error: type[Exception], message: str, call: Call) -> None:
    """`call` raises exactly `error`, and its one line begins with "visops." and `message`."""
    with pytest.raises(error, match="^" + re.escape(f"visops.{message}")) as caught:
        call()
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)
