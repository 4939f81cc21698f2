"""What every stage stands on: files, processes, records, progress and the store. Imports no stage."""
