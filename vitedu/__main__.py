"""`python -m vitedu` and `torchrun -m vitedu` are the command."""

import sys

from vitedu.cli import main

sys.exit(main())
