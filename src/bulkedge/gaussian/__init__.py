"""Gaussian expectations: by quadrature split at kinks, by samples with errors; lazily revealed matrices."""
