"""The commands, a module each: its text is its help, and `main` takes the arguments."""
