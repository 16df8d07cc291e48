"""Movers on the hosts of whoever asks: one host, or two that are joined by ssh."""
