"""Drivers for one machine: a SQLite file, a file tree, a folder of objects."""
