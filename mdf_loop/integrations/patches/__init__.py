"""MDF's engine changed while mdf_loop runs it: no ``eval``, timeouts, random numbers of the run, nothing printed."""
