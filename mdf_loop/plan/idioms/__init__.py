"""Recurrences that numpy or scipy can run in one call, one class each; table.py lists them."""
