"""Splits chains into passes, plans what each pass does, and runs it."""
