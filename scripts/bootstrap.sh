#!/bin/sh
# Finds a Python that is new enough, and hands over to scripts/bootstrap.py. Arguments: --check.
# PYTHON names one; otherwise the first that fits is taken.
set -eu
cd "$(dirname "$0")/.."

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

for python in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    if fits "$python"; then
        exec "$python" -B -m scripts.bootstrap "$@"
    fi
done

found=$("${PYTHON:-python3}" --version 2>&1) || found="none that runs"
echo "missing: Python 3.11 or newer as '${PYTHON:-python3}' (found: $found)." \
    "Debian and Ubuntu: apt-get install python3 python3-venv python3-dev." \
    "Another one: PYTHON=/path/to/python3 make improve" >&2
exit 1
