"""The asynchronous client. The synchronous one, `_sync`, is written from it."""
