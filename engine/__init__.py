"""contextful: durable runs."""
