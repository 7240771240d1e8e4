"""The pictures and tables of the documentation."""
