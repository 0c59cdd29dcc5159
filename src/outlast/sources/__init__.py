"""Where platforms announce that they want a machine back, one file each; every answer is doubted."""
