"""What a Step becomes: code of one kind or another."""
