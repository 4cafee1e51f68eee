"""Runs of a model side by side, along a leading axis: a lane for each run."""
