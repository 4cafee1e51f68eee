"""What a run warns of when it is over: values that look like a mistake of the model."""

from mdf_loop.execute.warnings.inverted_conditions import warn_of_inverted
from mdf_loop.execute.warnings.nan_warnings import Compared, warn_of_new_nan
from mdf_loop.execute.warnings.set_elements import SetElements
from mdf_loop.execute.warnings.shape_warnings import warn_of_new_shapes, warn_of_shapes_before
from mdf_loop.execute.warnings.shared_draws import warn_of_shared_draws
from mdf_loop.execute.warnings.wrapped_numbers import warn_of_wrapped_numbers

__all__ = ["WARNINGS", "Compared", "SetElements", "warn_of_shapes_before"]

WARNINGS = warn_of_new_nan, warn_of_new_shapes, warn_of_shared_draws, warn_of_wrapped_numbers, warn_of_inverted
"""Each is given the executor of a loop, its results, what it was given, the run, its random stream before, and its iterations."""
