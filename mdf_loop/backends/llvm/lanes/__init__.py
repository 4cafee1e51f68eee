"""Elements side by side: registers, instructions, and loops over elements."""
