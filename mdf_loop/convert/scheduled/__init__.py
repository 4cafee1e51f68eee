"""Scheduled MDF graphs as loops."""
