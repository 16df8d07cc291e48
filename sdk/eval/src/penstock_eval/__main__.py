"""Entry of `python -m penstock_eval`."""

import sys

from penstock_eval.cli import main

sys.exit(main())
