"""The further families: two more for each specialist, none of which the nano base was made for.

They fill no bank by themselves; a contract names them as suites (contracts/v2.toml).
"""

from macaron.environments.base import Environment
from macaron.environments.families.calendar import Calendars
from macaron.environments.families.files import SmallFiles
from macaron.environments.families.forms import Forms
from macaron.environments.families.honesty import Honesty
from macaron.environments.families.recall import Recall
from macaron.environments.families.repair import Repair
from macaron.environments.families.stock import Stock
from macaron.environments.families.tables import Tables

FAMILIES: tuple[type[Environment], ...] = (
    Recall,
    Honesty,
    Calendars,
    Stock,
    Repair,
    SmallFiles,
    Forms,
    Tables,
)
"""In the specialists' order."""
