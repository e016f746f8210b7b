"""The server's log: one line of JSON a request, and faults with their tracebacks."""

import logging

log = logging.getLogger("macaron.serve")
access = logging.getLogger("macaron.serve.access")
"""One JSON object a line; neither texts nor keys."""
