"""``record``: values of a run beside its outputs, kept while it runs."""
