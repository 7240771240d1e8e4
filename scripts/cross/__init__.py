"""Builds visops for 64-bit ARM and tests it in an emulator; `python scripts/arm --help`."""
