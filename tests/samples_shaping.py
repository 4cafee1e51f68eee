"""Samples for the kernels of this family."""

SAMPLES: list = []
