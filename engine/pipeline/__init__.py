"""Pulls from sources, their recording, shaping, staging and commit."""
