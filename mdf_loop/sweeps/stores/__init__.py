"""Stores: the rows of a sweep in arrays of zarr, written by its workers and opened lazily."""
