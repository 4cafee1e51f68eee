"""Operators of MDF's expressions: Python's own and numpy's."""
