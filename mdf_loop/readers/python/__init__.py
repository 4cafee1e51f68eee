"""Python functions to the IR: called once, with values that note what is done to them."""
