"""The same thing thousands of times: memory stays flat, files, threads and tasks stay constant."""
