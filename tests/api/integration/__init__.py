"""What webhook, operator and launcher write for each other."""
