"""A run says where a Python function has ``^`` between numbers, which many mean as a power."""

from __future__ import annotations

import re

import numpy as np

from mdf_loop.execute.warnings.ended_loop import EndedLoop

SAID = "^ is the exclusive or of whole numbers; a power is written **, and what is meant here np.bitwise_xor(a, b)"


def warn_of_powers(ended: EndedLoop) -> None:
    """Say that the exclusive or of numbers was written by its sign; that of truth values is meant."""
    body = ended.loop.body
    places = {node.outputs[0]: body.places.get(node.outputs[0], "") for node in body.nodes if node.op == "bitwise_xor"}
    written = [name for name, place in places.items() if re.search(r"\^(?!=)", place)]  # nobody writes x ^= 2 for a power
    if not written or (id(body), "power") in ended.run.warned:
        return
    for session, program in ended.first_iterations(1):
        name = next((name for name in written if np.asarray(session.env[program.slot(name)]).dtype != bool), "")
        if name:
            ended.run.warn_once((id(body), "power"), f"{body.at(name)}{SAID}")
