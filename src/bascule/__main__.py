"""`python -m bascule`, and the `bascule` command.

What each command does is left to `cli`; nothing heavy is imported before one is chosen.
"""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    from bascule.cli.app import run

    sys.exit(run())


if __name__ == "__main__":
    main()
