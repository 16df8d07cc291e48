"""Makes `python3 -m bench` the same as `penstock-bench`."""

import sys

from bench.cli import main

sys.exit(main(sys.argv[1:]))
