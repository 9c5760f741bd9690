"""Secondary indices: built in tasks, extended, merged and dropped, each with one commit of ours."""
