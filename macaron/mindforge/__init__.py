"""The loop's stages: each a plain function from verified inputs to artifacts on disk."""
