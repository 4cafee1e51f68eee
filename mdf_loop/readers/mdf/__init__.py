"""MDF graphs to the IR."""
