"""Many runs of one model: over a grid of values, over trials with random streams of their own, on one machine or several."""
