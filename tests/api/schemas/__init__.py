"""Fields: which ones a version has, and what an API server makes of the others."""
