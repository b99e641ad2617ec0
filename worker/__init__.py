"""The Python Worker: the one way to D1 and R2, and what keeps the engine's containers going."""
