"""Training over time: its high-dimensional limit (DMFT), the growth of overlaps, and descent at finite size."""
