"""What a start reads: the files of an earlier process, what is alive in them, and damage."""
