"""What a loop gave in many lanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Columns:
    """What a loop gave in all lanes.

    Attributes
    ----------
    values : list of array
        Carried, then last values, one row a lane; None where nobody wants them.
    collected : list of array or None
        Collected values: lanes, iterations, then the value's own axes; None where nobody wants them.
    lengths : array
        How many iterations each lane ran.
    """

    values: list[np.ndarray | None]
    collected: list[np.ndarray | None]
    lengths: np.ndarray

    def results(self, lane: int) -> list[Any]:
        """The results of one lane, as the loop itself gives them."""
        length = self.lengths[lane]
        rows = [None if column is None else column[lane, :length].copy() for column in self.collected]
        return [*(None if column is None else column[lane, ...].copy() for column in self.values), *rows]
