"""Pages of docs/ that hold a part made by a script, between two markers."""

import sys
from pathlib import Path


def refresh(path: Path, begin: str, end: str, made: str, script: str) -> int:
    """Puts what was made between a page's markers; the script's exit code.

    With `--check` on the command line nothing is written, and 1 says that the page is out of date.
    """
    page = path.read_text(encoding="utf-8")
    before, rest = page.split(begin)
    updated = f"{before}{begin}{made}{end}{rest.split(end)[1]}"
    if page == updated:
        return 0
    if "--check" in sys.argv:
        print(f"{path} is out of date: run python {Path(script).name}", file=sys.stderr)
        return 1
    path.write_text(updated, encoding="utf-8")
    return 0
