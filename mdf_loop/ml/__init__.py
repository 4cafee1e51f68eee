"""Machine learning as ai.onnx.ml has it, and texts: a room that may be taken out, see :mod:`mdf_loop.ops.rooms`."""

KERNELS = ("machine_learning", "strings", "support_vectors", "tree_ensembles", "tree_ensembles_as_tensors")
"""The modules that hold kernels."""
