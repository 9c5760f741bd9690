"""The next version of a table that takes over files of another root of it: a branch's, or main's.

``files`` gives copies names and brings them, ``base_paths`` says what the version must declare for
files that stay where they are, and ``next_version`` what it is recorded as. Publishing a branch and
merging by rows both compose their versions of these.
"""
