"""The repository: a git history over many tables.

Begin at ``repository``, then ``committing.transaction``: stage, swap, land. Words that recur:

    pin         what a commit says about one table: which state of it, on which branch of it
    branch      of the repository: a ref. Each table written on it has a branch of the same name
    tip         the commit that a branch of the repository is at
    stage       the next states of one table, built and not visible yet (``engine.staging``)
    swap        a branch moves from its tip to the new commit, or not at all: the commit point
    land        a state that a commit pins becomes an ordinary version of the table's branch
    diverged    it cannot land: a writer from outside made what does not go together with it
    owe, pay    a branch was moved, and its tables are to follow; whoever writes next sees to it
    cut         where all tables of a branch stand at one moment
    own         a table below the repository, in ``tables/``; other tables are elsewhere
    given up    made by commits that no branch leads to any more, and still in the table
"""
