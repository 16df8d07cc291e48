"""Benchmarks of Penstock: `bench/penstock-bench COMMAND`, or `python3 -m bench COMMAND`."""
