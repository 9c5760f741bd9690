"""Looking at commits, and at the tables beside them. Changes nothing."""
