"""Pure statistics on arrays and lists. Imports nothing from the other rooms of the analysis."""
