"""Making commits: tables and files as they are to be, and the swap that makes them so."""
