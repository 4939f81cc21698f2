"""What runs in the environment that is asked: a process that loads the stack and tells what is mapped into it."""
