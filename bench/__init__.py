"""Lancewood against pylance, measured side by side: ``python -m bench [names…] [--quick]``.

Knows the public face of both libraries and nothing of either's inside, except where a table of a
size that nobody wants to append together has to be made.
"""

OURS = "ours"
PYLANCE = "pylance"
