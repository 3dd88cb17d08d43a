"""Everything the node raises, under one root, each with a message for the peer and a detail for the log.

Failures of an operation are values (`terms.Outcome`), not exceptions; these are faults of setting up and of keeping.
"""


class NodeError(Exception):
    """Root of what the node raises. `str()` is fit for a peer; `detail` is for the log alone."""

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class InvalidOperationError(NodeError):
    """An operation cannot be registered: its name, schema or settings are not usable."""


class DuplicateOperationError(InvalidOperationError):
    """Two capabilities offer an operation of the same name."""


class StoreUnavailableError(NodeError):
    """The store cannot keep what must be kept before acting; nothing was executed."""


class NodeClosedError(NodeError):
    """The node is shutting down and takes no new work."""
