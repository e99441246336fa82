"""Compiled hot loops (Numba) over compressed rows, and nothing else. Steps h are counted from 0 in here."""
