"""The `macaron` command: one file per command; heavy libraries load only when a command runs."""
