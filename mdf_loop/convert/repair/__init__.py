"""Repairing models that MDF's ONNX importer wrote."""
