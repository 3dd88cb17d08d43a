"""Bascule lets AI agents operate your machines, on your terms.

This module holds the product version alone; every part is imported from its own module.
"""

__version__ = "0.1.0"
