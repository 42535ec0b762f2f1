"""Method `adaptive`: only the joints that matter most are simulated (Redon, Galoppo, Lin 2005)."""
