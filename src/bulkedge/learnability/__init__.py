"""When and whether features are found: thresholds and their windows, spectra, trajectories, learning times."""

from bulkedge.learnability.curves import trajectory
from bulkedge.learnability.hessians import outliers, spectrum
from bulkedge.learnability.thresholds import threshold
from bulkedge.learnability.times import learning_time

__all__ = ["learning_time", "outliers", "spectrum", "threshold", "trajectory"]
