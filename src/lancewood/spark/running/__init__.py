"""Running the tasks of a job on executors: how work and answers travel, and what failures mean."""
