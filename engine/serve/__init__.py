"""The process that starts engines as its children, and that alone may say that such an engine is gone."""
