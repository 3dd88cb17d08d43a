"""The command line: one file per command; errors become words and exit codes here.

What commands do is left to `assembly` and the parts it knows.
"""
