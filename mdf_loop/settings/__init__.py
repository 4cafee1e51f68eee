"""What callers choose: engines, and counts they give."""
