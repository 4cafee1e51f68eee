"""A Step as a function of JAX."""
