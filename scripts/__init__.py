"""What is run in a checkout and not shipped: the environment, the lock, the docs' tables."""
