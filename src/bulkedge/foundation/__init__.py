"""What every room shares: results, statuses, errors, numerics, citations, verdicts. Knows no model."""
