"""Limiting laws of Hessians for a given law of weights: bulk, edges, outliers, overlaps; eigenpairs of finite ones."""
