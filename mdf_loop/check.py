"""What a well-formed body is.  Every reader ends here."""

from __future__ import annotations

from mdf_loop.errors import MalformedBody
from mdf_loop.ir import Body, Node


def check_body(body: Body, path: tuple[str, ...] = ()) -> Body:
    """Return ``body`` if it is well-formed.

    Every name is written once, every value a node reads is an input, a constant, a capture or the output
    of an earlier node, and every output of the body is one of those.

    Raises
    ------
    MalformedBody
        Names the node, the value and the path down to it.
    """
    known, given = set(body.captures) | set(body.constants), set()
    for name in body.inputs:
        if not name:
            raise MalformedBody("an input has no name", path)
        if name in given:
            raise MalformedBody(f"two inputs are called {name!r}", path)
        given.add(name)
    known |= given
    hidden = {state.input for state in body.state}
    if clash := sorted(hidden & known):
        raise MalformedBody(f"{clash[0]!r} is hidden state and something else as well", path)
    known |= hidden
    written = set(body.inputs) | hidden
    for node in body.nodes:
        where = (*path, node.name or f"{node.op} -> {', '.join(n for n in node.outputs if n)}")
        for name in node.reads:
            if name not in known:
                raise MalformedBody(f"reads {name!r}, which {_written_later(body, node, name)}", where)
        for name in filter(None, node.outputs):
            if name in written or name in body.constants:
                raise MalformedBody(f"writes {name!r}, which is already written; each name is written once", where)
            written.add(name)
            known.add(name)
    for state in body.state:
        if state.output not in known:
            raise MalformedBody(f"hidden state {state.input!r} goes on as {state.output!r}, which nothing produces", path)
    for name in body.outputs:
        if not name:
            raise MalformedBody("an output has no name", path)
        if name not in known:
            raise MalformedBody(f"output {name!r} is not produced by any node, input, constant or capture", path)
    return body


def _written_later(body: Body, node: Node, name: str) -> str:
    """Why a node cannot read a name yet: its writer stands behind it, or needs this node's own outputs."""
    writers = {output: other for other in body.nodes for output in other.outputs if output}
    if name not in writers:
        return "no earlier node, input or constant provides"
    needed: set[str] = set()
    todo = [name]
    while todo:
        reads = writers[todo.pop()].reads
        todo += [read for read in reads if read in writers and read not in needed]
        needed.update(reads)
    if needed & set(filter(None, node.outputs)):
        return "depends on what this node writes: a cycle; what goes round in a loop is a carried value"
    return "only a later node writes; nodes must stand in an order in which they can run"
