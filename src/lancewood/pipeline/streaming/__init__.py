"""A pipeline as a stream: every micro-batch is a run."""
