"""Values as pictures: what is plotted, as arrays with named dimensions, and how, on axes of matplotlib."""
