"""OpenVINO's model files to the IR."""
