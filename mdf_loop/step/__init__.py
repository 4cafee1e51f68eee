"""The Step: what one run of a graph computes, typed, in single assignment, without names of operators or text."""
