"""What a well-formed body is.  Every reader ends here."""

from __future__ import annotations

from mdf_loop.errors import MalformedBody
from mdf_loop.ir import Body


def check_body(body: Body, path: tuple[str, ...] = ()) -> Body:
    """Return ``body`` if it is well-formed.

    Every name is written once, every value a node reads is an input, a constant, a capture or the output
    of an earlier node, and every output of the body is one of those.

    Raises
    ------
    MalformedBody
        Names the node, the value and the path down to it.
    """
    known = set(body.captures) | set(body.constants)
    for name in body.inputs:
        if body.inputs.count(name) > 1:
            raise MalformedBody(f"two inputs are called {name!r}", path)
        known.add(name)
    written = set(body.inputs)
    for node in body.nodes:
        where = (*path, node.name or f"{node.op} -> {', '.join(n for n in node.outputs if n)}")
        for name in node.reads:
            if name not in known:
                raise MalformedBody(f"reads {name!r}, which no earlier node, input or constant provides", where)
        for name in filter(None, node.outputs):
            if name in written or name in body.constants:
                raise MalformedBody(f"writes {name!r}, which is already written; each name is written once", where)
            written.add(name)
            known.add(name)
    for name in body.outputs:
        if name not in known:
            raise MalformedBody(f"output {name!r} is not produced by any node, input, constant or capture", path)
    return body
