"""Operators of neural networks: convolution, pooling, normalisation, attention, recurrent cells, images."""
