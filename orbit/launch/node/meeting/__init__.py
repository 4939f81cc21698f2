"""How the nodes of one job find each other, prove that they belong together, and keep in touch until its end."""
