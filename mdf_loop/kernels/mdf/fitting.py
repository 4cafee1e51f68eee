"""What an untyped body hands to a typed one inside it."""

from mdf_loop.kernels.mdf.expression_operators import DOMAIN
from mdf_loop.ops.registry import kernel
from mdf_loop.types.fitting import fit_values


@kernel("fit", domain=DOMAIN)
def fit(*values, names, asked):
    """The values with the element types that a body asks of its inputs and captures of these names."""
    return tuple(fit_values(asked, dict(zip(names, values, strict=True))).values())
