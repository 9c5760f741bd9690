"""Item repositories: millions of small ones below a folder, found, written and read one by one."""
