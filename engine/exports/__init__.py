"""Publications: rows of the corpus on their way to a destination, batch by batch and each of them once."""
