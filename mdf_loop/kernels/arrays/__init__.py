"""Operators on arrays as a whole: shapes, places, sums along axes, products of matrices; and lists of arrays."""
