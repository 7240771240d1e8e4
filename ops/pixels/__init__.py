"""Pixel operations: values that no matrix expresses."""
