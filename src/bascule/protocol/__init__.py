"""The only package that imports the MCP SDK: any node projected to MCP, and another MCP server reached as a node.

What may happen and what did is the node's; bytes on HTTP are bounded by the gates, lines on a pipe by `stdio`.
"""
