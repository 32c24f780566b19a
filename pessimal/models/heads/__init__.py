"""Heads of families that otherwise need their repository's code, on transformers' backbones."""
