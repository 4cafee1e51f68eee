"""Some of the exported loops by hand, as one would write them for numba."""

FUNCTIONS = {}
