"""What is wrong with a model, found before it runs."""
