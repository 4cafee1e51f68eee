"""Checkpoints: sweeps that can be gone on with, and results that are opened again."""
