"""ONNX files, graphs and texts to the IR."""
