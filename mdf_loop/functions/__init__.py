"""Functions that nodes of MDF models name and that MDF does not have, each written once, as an expression."""
