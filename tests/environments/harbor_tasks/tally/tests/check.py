"""Whether the totals are right."""

import json
import os
import sys
from pathlib import Path

found = json.loads(Path("totals.json").read_text())
right = {"north": 42, "south": 14, "east": 1}
assert len(right) == int(os.environ["WANTED"])
sys.exit(found != right)
