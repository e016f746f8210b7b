"""What runs inside the sandbox: scripts that import each other and nothing of the project.

Each is started with `python -S -B -s -P`, in an environment that is its own. What is in here may
be read by model-written code, and none of it is trusted once that code has run in its process.
"""
