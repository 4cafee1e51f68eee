"""Python functions to the IR: called with values that note what is done to them."""
