"""Reading tables on Spark: the driver plans once, tasks carry what they read."""
