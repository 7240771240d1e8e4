"""Which exceptions an operator may raise."""

import re

from .ways import FindingError

# By exact type: a subclass such as NotImplementedError means that nobody thought of the case.
ALLOWED = ("RuntimeError", "ValueError", "TypeError", "DamagedFileError")
# Messages of torch and the C++ library that no user should see.
FORBIDDEN = re.compile(
    "INTERNAL ASSERT|std::bad_alloc|length_error|vector::|basic_string::|please report a bug"
)


def verdict(error: BaseException) -> str | None:
    """Return what is wrong with an exception, or None."""
    if isinstance(error, FindingError):
        return str(error)
    kind, message = type(error).__name__, str(error)
    if kind == "MemoryError" and message.startswith("visops."):
        return None
    if isinstance(error, OSError) and "visops." in message:
        return None
    if kind not in ALLOWED:
        return f"{kind}: {message}"
    match = FORBIDDEN.search(message)
    return f"{kind} with {match[0]!r}: {message}" if match else None
