"""A bare git repository in SHA-256 format, on dulwich: on a disk here, in a bucket in ``bucket``;
knows nothing of tables."""
