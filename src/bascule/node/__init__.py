"""The domain: what exists on this machine, who may use it, and what happened.

It knows no MCP, HTTP or SQL; those belong to `protocol`, `gates` and `store`.
"""
