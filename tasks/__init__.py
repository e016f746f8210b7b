"""Prefect tasks: one step of the cycle each, thin over `macaron.mindforge`."""
