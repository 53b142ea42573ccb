"""``python -m harness.fleet.local --run-dir DIR``: the supervisor of one run's fleet."""

import sys

from harness.fleet.local.supervisor import main

sys.exit(main())
