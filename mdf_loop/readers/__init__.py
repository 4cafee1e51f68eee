"""Readers: from a format to the IR.  Each ends in a checked :class:`~mdf_loop.ir.Body`."""
