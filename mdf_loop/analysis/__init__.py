"""Analyses: functions that look at a body and change nothing."""
