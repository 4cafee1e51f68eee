"""Models as functions of JAX."""
