"""From one model format to another, and mending what others wrote."""
