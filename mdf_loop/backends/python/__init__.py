"""A Step printed as Python: numbers as Python's own, arrays as calls of numpy, operators as a whole as calls of their kernels."""
