"""Targets, the judging of a run by them, and tables."""
