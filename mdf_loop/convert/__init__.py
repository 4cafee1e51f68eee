"""From one model format to another, and repairing what others wrote."""
