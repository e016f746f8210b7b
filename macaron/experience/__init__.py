"""Experience: trajectories, how they are kept, checked, and what they do to the next training."""
