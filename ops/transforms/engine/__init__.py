"""Fusing a chain into passes, planning each pass, and running it."""
