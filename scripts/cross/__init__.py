"""Builds visops for other systems and tests it without them; `python scripts/cross --help`."""
