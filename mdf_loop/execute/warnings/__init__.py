"""What a run warns of when it is over: values that look like a mistake of the model."""

from typing import Any

from mdf_loop.errors import PartialResults
from mdf_loop.execute.interpret import Arguments, InterpretedLoop
from mdf_loop.execute.warnings.ended_loop import EndedLoop
from mdf_loop.execute.warnings.inverted_conditions import warn_of_inverted
from mdf_loop.execute.warnings.nan_warnings import Compared, warn_of_new_nan
from mdf_loop.execute.warnings.negative_codes import warn_of_negative_codes
from mdf_loop.execute.warnings.operator_signs import warn_of_signs
from mdf_loop.execute.warnings.set_elements import refuse_arrays, warn_of_set_elements
from mdf_loop.execute.warnings.shape_warnings import warn_of_new_shapes
from mdf_loop.execute.warnings.shared_draws import warn_of_shared_draws
from mdf_loop.execute.warnings.unread_rows import warn_of_unread_rows
from mdf_loop.execute.warnings.wrapped_indices import warn_of_wrapped_indices
from mdf_loop.execute.warnings.wrapped_numbers import warn_of_wrapped_numbers
from mdf_loop.execute.warnings.zero_divisors import warn_of_zero_divisors
from mdf_loop.options import Run

__all__ = ["Compared", "EndedLoop", "refuse_arrays", "warn_of", "warn_of_shapes_before"]

UNDECLARED = (
    *(warn_of_zero_divisors, warn_of_new_shapes, warn_of_shared_draws, warn_of_wrapped_numbers),
    *(
        warn_of_wrapped_indices,
        warn_of_negative_codes,
        warn_of_unread_rows,
        warn_of_inverted,
        warn_of_signs,
        warn_of_set_elements,
    ),
)
"""What is said of bodies that declare no types: those of ONNX say what they mean."""


def warn_of(ended: EndedLoop, compared: Compared) -> None:
    """Warn of all that looks like a mistake in a loop that has run."""
    compared.warn_of_nan(ended)
    warn_of_new_nan(ended)
    for warn in UNDECLARED if _is_looked_at(ended) else ():
        warn(ended)


def warn_of_shapes_before(error: PartialResults, executor: InterpretedLoop, given: Arguments, run: Run, drawn: Any) -> None:
    """Warn of shapes in a loop that an error ended, which another shape may be the cause of."""
    if error.progress is not None and error.progress.owner is executor:
        moment = error.progress.moment
        ended = EndedLoop(executor, moment.carried, given, run, drawn, moment.iteration)
        if _is_looked_at(ended):
            warn_of_new_shapes(ended)


def _is_looked_at(ended: EndedLoop) -> bool:
    return bool(ended.lasted) and ended.run.tells and not ended.loop.body.typed
