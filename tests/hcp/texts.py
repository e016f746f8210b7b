"""A document that uses every section, as TOML."""

FULL = """\
# The harness of the tests.
version = "1.1"

[router]
system = "route"
default = "L0"

[specialists.L0]
name = "chat"   # its label
system = "Be brief."
max_tokens = 48
temperature = 0.5
skills = ["greet"]

[specialists.L1]
name = "agent"
system = "agent"
max_tokens = 64
temperature = 0.0
surface = "repl"
tools = ["search", "shell", "web.fetch"]

[tools.search]
description = "Find rows."
source = "environment"
[tools.search.parameters]
type = "object"
required = ["q"]
properties = { q = { type = "string" }, "a.b" = { type = "integer" } }

[tools.shell]
description = "Run a command."
source = "builtin"
parameters = { type = "object" }

[tools."web.fetch"]
description = "Get a page."
source = "mcp:web"
parameters = { type = "object" }

[skills.greet]
description = "How to greet."
text = "Say hello."
trigger = "(?i)hello"

[mcp.web]
command = ["web-server", "--stdio"]
env = ["WEB_TOKEN"]

[[hooks]]
name = "no-delete"
when = "before_tool"
tools = ["shell"]
pattern = "rm -rf"
action = "refuse"
text = "not allowed"
safety = true

[[hooks]]
name = "sign"
when = "before_stop"
pattern = "bye"
negate = true
action = "continue"
text = "Say bye."

[workspace]
cpu_s = 7
"""
