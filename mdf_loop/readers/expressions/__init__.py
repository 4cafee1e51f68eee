"""Expressions and equations in text to the IR."""
