"""Reward models side by side: how far their rankings of the same words agree."""

from pessimal.compare.compare import Comparison, compare_models
from pessimal.compare.covariates import Covariates, read_covariates
from pessimal.compare.records import Entry

__all__ = ["Comparison", "Covariates", "Entry", "compare_models", "read_covariates"]
