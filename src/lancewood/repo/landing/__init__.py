"""What commits pin comes onto the branches of the tables, and what a moved branch owes them."""
