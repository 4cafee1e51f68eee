"""From the IR to other formats."""
