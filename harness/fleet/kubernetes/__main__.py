"""``python -m harness.fleet.kubernetes --run-dir DIR``: the process that follows one run's load."""

import sys

from harness.fleet.kubernetes.supervisor import main

sys.exit(main())
