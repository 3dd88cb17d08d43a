"""The HTTP boundary: one gate, one refusal, one file.

It knows neither MCP nor the node; what lies behind the gates is whatever ASGI application it is given.
"""
