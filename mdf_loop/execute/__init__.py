"""Executors: what runs a loop."""
