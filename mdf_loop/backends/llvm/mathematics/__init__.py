"""Functions of mathematics for every width of registers: written as instructions, compiled once, linked to programs."""
