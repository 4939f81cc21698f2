"""One module per kind of check. Nothing outside the standard library is imported before the check itself runs."""
