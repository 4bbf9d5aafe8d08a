"""Power cuts: a run is recorded write by write, and the files that a cut could leave are opened."""
