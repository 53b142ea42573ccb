"""``python -m harness.graph`` is what ./doit runs."""

import sys

from harness.graph.entry import main

sys.exit(main())
