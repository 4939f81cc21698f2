"""The doctor: what is wrong on this machine, or what an error message means; cause and fix, the likeliest first."""
