"""The repository: a git history over many tables.

Begin at ``repository``, then ``commit.transaction``: stage, swap, land. Words that recur:

    pin         what a commit says about one table: which state of it, on which branch of it
    branch      of the repository: a ref. Each table written on it has a branch of the same name
    tip         the commit that a branch of the repository is at
    stage       the next states of one table, built and not visible yet (``engine.staging``)
    swap        a branch moves from its tip to the new commit, or not at all: the commit point
    land        a state that a commit pins becomes an ordinary version of the table's branch
    diverged    it cannot land: a writer from outside made a version that conflicts with it
    pending     of a table: its branch was moved, and the table must still follow. The next writer
                sees to it, from a note (``notes``)
    standing    of a table: as it is now, committed or not
    own         a table below the repository, in ``tables/``; other tables are elsewhere
    abandoned   made by commits that no branch leads to any more, and still in the table
    retention   what keeps a version from cleanup: a pin in a commit that a ref or a reflog leads
                to, or a protection tag in the table itself
"""

from typing import TYPE_CHECKING

from lancewood.lazy_names import lazy_names

if TYPE_CHECKING:
    from lancewood.catalog.names import (
        branch_ref,
        checked_table,
        own_table,
        own_table_uri,
        pin_file,
        tag_ref,
    )
    from lancewood.catalog.pin import Pin, encode_pin
    from lancewood.format.json_object import decode_object
    from lancewood.git.history import graph_lines
    from lancewood.git.names import (
        HEADS,
        TAGS,
        RepositoryRoot,
        below,
        checked_ref,
        checked_tag,
        is_uri,
    )
    from lancewood.git.objects import Commit
    from lancewood.git.ref_store import LogEntry
    from lancewood.git.refs import Head
    from lancewood.git.values import ZERO, Hash, Signature
    from lancewood.model.refs import MAIN
    from lancewood.repo.commit.swapping import FilesBeside, swap
    from lancewood.repo.commit.transaction import Transaction
    from lancewood.repo.context import RepoContext
    from lancewood.repo.decisions import decisions_ref
    from lancewood.repo.fsck import FsckReport
    from lancewood.repo.gc.needed import GcReport, TableBranch
    from lancewood.repo.identity import author_here, checked_author, checked_message, first_line
    from lancewood.repo.inspect.comparing import Shown, TableChange
    from lancewood.repo.inspect.status import State, Status, TableStatus
    from lancewood.repo.inspect.view import View
    from lancewood.repo.merge.plan import check_nothing_beside
    from lancewood.repo.outcome import Committed, Divergence, NotLandedWarning, TableDone, TakenIn
    from lancewood.repo.refs import Branches, Marks, Tags
    from lancewood.repo.repository import Repository
    from lancewood.repo.table_names import TableNames, location_of, own_root, written_by_head
    from lancewood.store.disk_root import refuse_links

_NAMES = {
    "lancewood.catalog.names": "branch_ref checked_table own_table own_table_uri pin_file tag_ref",
    "lancewood.catalog.pin": "Pin encode_pin",
    "lancewood.format.json_object": "decode_object",
    "lancewood.git.values": "Hash Signature ZERO",
    "lancewood.git.names": ("HEADS RepositoryRoot TAGS below checked_ref checked_tag is_uri"),
    "lancewood.git.objects": "Commit",
    "lancewood.git.ref_store": "LogEntry",
    "lancewood.git.refs": "Head",
    "lancewood.git.history": "graph_lines",
    "lancewood.model.refs": "MAIN",
    "lancewood.repo.merge.plan": "check_nothing_beside",
    "lancewood.repo.commit.swapping": "FilesBeside swap",
    "lancewood.repo.commit.transaction": "Transaction",
    "lancewood.repo.context": "RepoContext",
    "lancewood.repo.decisions": "decisions_ref",
    "lancewood.repo.fsck": "FsckReport",
    "lancewood.repo.gc.needed": "GcReport TableBranch",
    "lancewood.repo.identity": "author_here checked_author checked_message first_line",
    "lancewood.repo.inspect.comparing": "Shown TableChange",
    "lancewood.repo.inspect.status": "State Status TableStatus",
    "lancewood.repo.inspect.view": "View",
    "lancewood.repo.refs": "Branches Marks Tags",
    "lancewood.repo.outcome": "Committed Divergence NotLandedWarning TableDone TakenIn",
    "lancewood.repo.repository": "Repository",
    "lancewood.repo.table_names": "TableNames location_of own_root written_by_head",
    "lancewood.store.disk_root": "refuse_links",
}

__all__ = [
    "HEADS",
    "MAIN",
    "TAGS",
    "ZERO",
    "Branches",
    "Commit",
    "Committed",
    "Divergence",
    "FilesBeside",
    "FsckReport",
    "GcReport",
    "Hash",
    "Head",
    "LogEntry",
    "Marks",
    "NotLandedWarning",
    "Pin",
    "RepoContext",
    "Repository",
    "RepositoryRoot",
    "Shown",
    "Signature",
    "State",
    "Status",
    "TableBranch",
    "TableChange",
    "TableDone",
    "TableNames",
    "TableStatus",
    "Tags",
    "TakenIn",
    "Transaction",
    "View",
    "author_here",
    "below",
    "branch_ref",
    "check_nothing_beside",
    "checked_author",
    "checked_message",
    "checked_ref",
    "checked_table",
    "checked_tag",
    "decisions_ref",
    "decode_object",
    "encode_pin",
    "first_line",
    "graph_lines",
    "is_uri",
    "location_of",
    "own_root",
    "own_table",
    "own_table_uri",
    "pin_file",
    "refuse_links",
    "swap",
    "tag_ref",
    "written_by_head",
]

__getattr__, __dir__ = lazy_names(globals(), _NAMES)
