"""Statistics of scores: ranks, effect sizes, bootstrap, matching, regression, permutation."""
