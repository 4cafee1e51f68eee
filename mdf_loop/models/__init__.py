"""Models as objects: opened once, called often, with named inputs and results, and what is recorded of a run."""
