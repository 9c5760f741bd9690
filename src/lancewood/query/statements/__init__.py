"""SQL that writes: from the text of a script to checked statements.

``model`` has a value for each statement, ``parse_script`` makes them of a text, and ``explained``
says in words what one would do. Nothing is looked up and nothing is changed here.
"""
