"""The HTTP side: OpenAI's endpoints, keys, limits and metrics over a `Service`."""
