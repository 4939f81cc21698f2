"""What an audit says, and every form in which it is shown."""
