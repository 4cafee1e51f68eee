"""What Python and the system give: locks, context variables, the installation, HTML in notebooks."""
