"""Operators on numbers, element by element: arithmetic, truth values, types, quantization."""
