"""Runs everything that needs a GPU; see __main__.py."""
