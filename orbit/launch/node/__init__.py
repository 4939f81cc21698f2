"""The program every container of a job runs: node checked, others met, Ray up, command run, all cleared up."""
