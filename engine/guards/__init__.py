"""Callback guards: the durable rows that keep a call to the outside from being sent twice or lost track of."""
