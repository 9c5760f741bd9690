"""What comes in: sources and steps as frames of Spark, and what is new since the last run."""
