"""What Python and the system give: locks, context variables, HTML in notebooks."""
