"""The drift diffusion process by Bogacz et al. (2006), as PsyNeuLink computes it without steps.

The moments of its response times are by Srivastava et al. (2016).
"""

from __future__ import annotations

from typing import Any

from mdf_loop.functions.function_rows import row


def _moments(prefix: str, s: str) -> dict[str, str]:
    """Mean, variance and skewness of the times to one threshold; ``s`` is how far it is, ``k`` the threshold's own."""
    coth_k, coth_s = "numpy.cosh(2 * k) / numpy.sinh(2 * k)", f"numpy.cosh({s}) / numpy.sinh({s})"
    a, b, c, d = f"2 * k * {coth_k}", f"{s} * {coth_s}", "(2 * k / numpy.sinh(2 * k)) ** 2", f"({s} / numpy.sinh({s})) ** 2"
    return {
        f"{prefix}_mean": f"unit * ({a} - {b}) + non_decision_time",
        f"{prefix}_variance": f"unit**2 * ({c} + {a} - {d} - {b})",
        f"{prefix}_third": f"unit**3 * (3 * {c} + 2 * {a} * {c} + 3 * {a} - 3 * {d} - 2 * {b} * {d} - 3 * {b})",
        f"{prefix}_skewness": f"{prefix}_third / {prefix}_variance ** 1.5",
    }


_PROCESS: dict[str, Any] = {
    "drift_rate": 1.0,
    "threshold": 1.0,
    "starting_value": 0.0,
    "noise": 0.5,
    "non_decision_time": 0.2,
    "share": "(starting_value + threshold) / (2 * threshold)",
    "start": "noise**2 / 2 * numpy.log(share / (1 - share))",
    "speed": "drift_rate * variable0",
    "drift": "numpy.where(speed == 0, 1.0, speed)",
    "z": "threshold * drift / noise**2",
    "lead": "(1 - numpy.exp(-2 * start * drift / noise**2)) / (numpy.exp(2 * z) - numpy.exp(-2 * z))",
    "lower": "numpy.where(speed == 0, 1 - share, 1 / (1 + numpy.exp(2 * z)) - lead)",
    "time": "numpy.where(speed == 0, (threshold**2 - start**2) / noise**2,"
    " (threshold * numpy.tanh(z) + 2 * threshold * lead - start) / drift) + non_decision_time",
    "drawn": "numpy.random.uniform(0.0, 1.0, numpy.shape(variable0))",
    # the moments want a drift
    "pace": "numpy.where(numpy.abs(speed) < 0.01, 0.01, speed)",
    "unit": "(noise / pace) ** 2",
    "k": "threshold * pace / noise**2",
    "to_upper": "k + start * pace / noise**2",
    "to_lower": "k - start * pace / noise**2",
    **_moments("upper", "to_upper"),
    **_moments("lower", "to_lower"),
}
_TIMES = "upper_mean, upper_variance, upper_skewness, lower_mean, lower_variance, lower_skewness"

ANALYTICAL = row(f"time, lower, {_TIMES}", **_PROCESS)
DECIDED = row(f"numpy.where(drawn < lower, -threshold, threshold), time, 1 - lower, lower, {_TIMES}", **_PROCESS)
"""What DDM, a mechanism with this function, gives: which threshold is reached is drawn."""
