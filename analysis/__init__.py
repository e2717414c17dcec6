"""The plan that results are judged by, and the simulations that show whether it keeps its error rates."""
