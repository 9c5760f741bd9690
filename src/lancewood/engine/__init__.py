"""One table: opening a version of it, reading its rows, writing files, and committing.

The rooms, each of which imports only those above it; one that is not listed before another does not
know it:

    base       checked numbers and lists, work on several threads, any Arrow data as one stream
    versions   which versions, branches and tags there are, found by names of files
    location   where a table and its base paths are, and where new files go
    commit     judge what landed meanwhile, build the next manifest, publish it, look again
    snapshot   one open version, and the ways to ask for one; ``Access`` is how a caller does
    schema     columns by name: what a read needs, how a change alters them
    rows       scans, single rows, blobs; row ids and row versions
    write      what a write is (``WriteRequest``), and files that a commit will name
    changes    which rows were changed from one version of a line to a later one, by their marks
    comparing  which rows and cells of any two states differ, by files, ids, marks and values
    staging    states of a table inside a transaction of a repository, and how they land
    upkeep     the table as a whole: dropped, migrated, diagnosed, pinned by clones

Begin at ``snapshot.snapshot``, then ``write.write`` and ``commit.commit``.
"""
