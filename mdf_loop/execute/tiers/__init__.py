"""Tiers of engine ``auto``: what is interpreted first, when machine code pays, and compiling in a thread."""
