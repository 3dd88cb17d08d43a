"""Putting the parts together: the only place that knows all of them.

A room for each program, so that a bridge does not load a controller: `controller` and `bridge`.
"""
