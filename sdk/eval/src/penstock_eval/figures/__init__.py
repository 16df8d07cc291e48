"""Figures of the report, in its order."""
