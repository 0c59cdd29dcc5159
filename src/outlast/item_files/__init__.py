"""Files of items to publish: found, opened and read row by row, in bounded memory whatever their size."""
