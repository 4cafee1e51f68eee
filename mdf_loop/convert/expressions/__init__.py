"""Bodies and expressions of MDF in operators of ONNX alone.

How Python's and numpy's functions are written stands in the modules that fill the table, one function each.
"""
