"""Measurements at finite size: networks really trained, with standard errors over repetitions."""

from bulkedge.finite.simulate import simulate

__all__ = ["simulate"]
