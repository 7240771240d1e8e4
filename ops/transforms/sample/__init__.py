"""A sample taken apart into leaves: its images, its targets, and what passes through."""
