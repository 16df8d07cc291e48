"""The synchronous client, written from `_async` by `tools/generate.py`."""
