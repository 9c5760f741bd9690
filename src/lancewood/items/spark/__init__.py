"""All items at once, as jobs on Spark: read, written, tagged and imported by the million."""
