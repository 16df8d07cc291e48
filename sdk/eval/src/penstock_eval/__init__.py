"""Report of a sweep of Penstock: figures, tables and statistics from a run directory."""

__version__ = "0.1.0"
