"""Links from a release's task to its report, its account and its verification."""
