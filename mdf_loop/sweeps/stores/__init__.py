"""Stores: the rows of a sweep in arrays of zarr, written by those who run them and opened lazily."""
