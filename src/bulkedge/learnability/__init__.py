"""When and whether features are found: thresholds and their windows, spectra, trajectories, learning times."""
