"""SQL over tables at revisions, executed by Spark: ``query`` puts frames into the text."""
