"""Reward models behind a server: what they speak, how they are asked, and what is checked first."""
