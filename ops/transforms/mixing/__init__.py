"""Combines the samples of a batch: their images, labels and targets."""
