"""`warren bench`: load, its arguments, and the table that it prints."""
