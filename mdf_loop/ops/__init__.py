"""Operators: the row of the table that says what one is, and the rules by which one call does many iterations."""
