"""How each operation of a Step is written."""
