"""A bare git repository in SHA-256 format on a local disk, on dulwich; knows nothing of tables."""
