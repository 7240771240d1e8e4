"""Splits samples into leaves: images, targets and everything else."""
