"""The handle that people hold, one group of verbs a file, and the verbs that find a table."""
