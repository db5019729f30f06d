"""Our simulator and TCP beside ns-2, ns-3, formulas and this host's kernel."""
