"""Device arithmetic: what a memory budget holds and how long a prompt takes, as estimates."""
