"""Formats: ELF files, the fatbin containers in them, cubins, machine code; what a device would load of them."""
