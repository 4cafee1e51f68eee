"""The loops that are measured: functions that make one workload each, by subject."""

from collections.abc import Callable

from workloads import arrays, control, networks, simulations
from workloads.record import Workload, differences

EVERY: tuple[Callable[..., Workload], ...] = (
    *simulations.WORKLOADS,
    *networks.WORKLOADS,
    *control.WORKLOADS,
    *arrays.WORKLOADS,
)

__all__ = ["EVERY", "Workload", "differences"]
