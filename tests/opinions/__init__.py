"""Other people's checks of templates as second opinions; each test says why where its package is absent."""
