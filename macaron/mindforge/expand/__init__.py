"""Expansion: what another harness makes of a frozen model, searched for within a budget.

Nothing here changes weights, and nothing outside the contract's write scope is ever played.
"""
