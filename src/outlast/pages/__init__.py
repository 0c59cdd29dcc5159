"""Web pages that outlast makes: markup in which everything foreign is escaped, one look, no script."""
