"""What the commits of a repository say about tables: pins, and which versions they need.

A commit's tree is ``tables`` (one ``pin`` for each) and ``files``. ``opening`` leads from a version
to its pin and back. ``reachable`` walks commits for what they pin, ``membership`` is what a table
knows about its repositories. ``names`` says what is allowed.
"""
