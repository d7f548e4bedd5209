"""One file per command; the only home of click, stdout, sys.exit and the clock."""
