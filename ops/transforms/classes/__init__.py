"""The transforms."""
