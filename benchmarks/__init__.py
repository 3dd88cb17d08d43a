"""Ratios against the bare SDK, side by side in one run; never a timed test.

What the figures must be is left to the issue that asked for them; `python -m benchmarks` prints what this machine gave.
"""
