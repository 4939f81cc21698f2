"""Two images compared: down to the file, the ELF section, the fatbin container, and why."""
