"""Where what must last is kept: SQLite by default, behind the interfaces that the node defines.

What is kept and when is the node's; this package only keeps it.
"""
