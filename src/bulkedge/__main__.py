"""`python -m bulkedge` is the command `bulkedge`."""

import sys

from bulkedge.cli import main

sys.exit(main())
