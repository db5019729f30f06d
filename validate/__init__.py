"""Compares our simulator and TCP with ns-2, ns-3, formulas and this host's kernel."""
