"""What callers choose: engines, counts, and the numbers that are drawn."""
