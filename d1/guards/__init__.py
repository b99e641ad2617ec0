"""Guards in D1 as the Worker serves them to operators: requests into statements, rows into answers. Pure."""
