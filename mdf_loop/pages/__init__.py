"""Pages for a browser or a notebook: a model with sliders, and a report of a model and what it gives."""
