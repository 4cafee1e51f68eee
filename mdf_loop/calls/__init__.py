"""``loop``, ``scan``, ``if_`` and ``compile``: from arguments to a prepared body, and from its results back."""
