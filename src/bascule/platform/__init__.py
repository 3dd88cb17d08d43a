"""What differs between systems: process groups, file modes, a parent's death.

A guarantee that a system cannot give is named by `processes.missing_guarantees`, never dropped in silence.
"""
