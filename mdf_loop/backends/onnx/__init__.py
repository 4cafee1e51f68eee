"""A Step printed as an ONNX graph."""
