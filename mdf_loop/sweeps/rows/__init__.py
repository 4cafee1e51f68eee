"""What the runs of a sweep give, a row for each: filled, merged over trials, labelled."""
