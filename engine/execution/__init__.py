"""Inside a run: steps, retries, waits, joins, the keeper and cancellation."""
