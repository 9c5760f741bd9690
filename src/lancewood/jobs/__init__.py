"""Heavy work in three parts: a plan on the driver, tasks anywhere, one commit that shows it all.

Tasks and their results are small and pickle; a task may run twice, and leaves at most files that
nothing refers to. Who runs them is the ``Runner``: threads here, executors on Spark.
"""
