"""The plain layout of ADR-019 becomes a repository: raw snapshots, and refs and HEAD as texts."""
