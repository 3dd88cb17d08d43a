"""What this machine can do: one capability a file.

Who may use it, and what is written down, is left to the node; these files only describe and do.
"""
