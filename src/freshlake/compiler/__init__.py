"""Query → refresh program: Spark compiles, Freshlake differentiates."""
