"""The tool pool as data: candidates named by content, what happened to them, and a pair's copy.

Nothing in here runs or parses a tool's source: to this room it is text.
"""
