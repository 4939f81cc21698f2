"""Looking: what fills the facts. Nothing is changed, nothing outside is asked, and nothing can hang for long."""
