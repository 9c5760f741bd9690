"""The commands on item repositories: ``lw items``, and ``lw repo`` for one in the plain layout."""
