"""What a body comes as: which of the things that can be called are read, as graphs are, rather than called."""

from __future__ import annotations

from typing import Any


def is_read(source: Any) -> bool:
    """Whether a source that can be called is read all the same: a function of onnxscript, or one that is traced."""
    return hasattr(source, "to_function_proto") or hasattr(source, "to_body")
